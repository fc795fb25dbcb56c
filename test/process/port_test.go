package process_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/archelon-io/archelon/test/process"
)

func TestFreeAddresses(t *testing.T) {
	addresses, err := process.FreeAddresses(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, address := range addresses {
		if seen[address] {
			t.Errorf("FreeAddresses(): %s twice", address)
		}
		seen[address] = true
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		if number, _ := strconv.Atoi(port); number >= 32768 {
			t.Errorf("FreeAddresses(): %s is among the ports that the kernel gives to outgoing connections", address)
		}
		listener, err := net.Listen("tcp", address) //nolint:noctx // it is closed at the end
		if err != nil {
			t.Errorf("FreeAddresses(): %v", err)
			continue
		}
		defer func() { _ = listener.Close() }()
	}
}
