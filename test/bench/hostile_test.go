package main

import (
	"strings"
	"testing"
)

func TestCheckSoak(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		result soaked
		says   string
	}{
		"Unharmed": {"nobody noticed", soaked{imported: 50, peak: 149}, ""},
		"Missing":  {"one is not imported", soaked{imported: 49, peak: 100}, "49 of 50 clusters"},
		"Memory":   {"it takes too much", soaked{imported: 50, peak: 151}, "more than 150"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkSoak(tc.result, 50)
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.says)
			}
		})
	}
}

// The attack has to reach what it is to test: the API server takes no more than this, and the manager
// parses no more than 64 KiB.
func TestTheAttackIsAsLargeAsItMayBe(t *testing.T) {
	const mostAnnotations, mostSecret, mostParsed = 256 << 10, 1 << 20, 64 << 10
	for i, parsed := range []bool{true, false} {
		secret := hostileSecret(i, 12345)
		if size := len(secret.Data["value"]); (size <= mostParsed) != parsed || size > mostSecret || size < mostParsed*9/10 {
			t.Errorf("Secret %d has a kubeconfig of %d bytes", i, size)
		}
	}
	if size := len(hostileEnv(12345)); size > mostAnnotations || size < mostAnnotations/2 {
		t.Errorf("the environment has %d bytes", size)
	}
	if string(hostileSecret(0, 1).Data["value"]) == string(hostileSecret(0, 2).Data["value"]) || hostileEnv(1) == hostileEnv(2) {
		t.Error("a change changes nothing")
	}
}
