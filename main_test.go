package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/archelon-io/archelon/internal/check"
	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/plan"
)

// As a plugin of kubectl the program must not begin to work as a manager.
func TestPluginIsNoManager(t *testing.T) {
	if root := command("archelon"); root.RunE == nil || root.Flags().Lookup("leader-elect") == nil {
		t.Error("the program is no manager")
	}
	root := command("kubectl-archelon")
	if root.RunE != nil || root.Flags().Lookup("leader-elect") != nil {
		t.Error("the plugin is a manager")
	}
	out := &bytes.Buffer{}
	root.SetOut(out)
	root.SetArgs(nil)
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "kubectl archelon [command]") {
		t.Errorf("got %v, %s", err, out)
	}
}

// A flag without a value, of any command, would silently leave out a restriction.
func TestFlagsWithoutAValue(t *testing.T) {
	for _, args := range [][]string{
		{"--namespace-selector="}, {"--watch-filter= "}, {"--namespace="}, {"--excluded-namespace=a,,b"}, {"--import-selector", ""},
		{"--unpropagated-label="}, {"--propagated-annotation="}, {"uninstall", "--yes", "--instance="}, {"uninstall", "--yes", "--instance=a", "--watch-filter="},
		{"status", "--selector="}, {"plan", "--namespace= "}, {"check", "--kubeconfig="},
	} {
		root := command("archelon")
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "is given without a value") {
			t.Errorf("%q: got %v", args, err)
		}
	}
	flags := command("archelon").Flags()
	if err := errors.Join(flags.Parse([]string{"--fleet-workspace=", "--watch-filter=blue"}), options.CheckGiven(flags)); err != nil {
		t.Errorf("got %v", err)
	}
}

// A slip must neither pass for a success nor leave the user without the right word.
func TestMistypedCommands(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"archelon", []string{"statsu"}, "\tstatus\n"},
		{"kubectl-archelon", []string{"statsu"}, "\tstatus\n"},
		{"kubectl-archelon", []string{"bogus"}, `unknown command "bogus" for "kubectl archelon"`},
		{"archelon", []string{"check", "bogus"}, `unknown command "bogus" for "archelon check"`},
		{"archelon", []string{"status", "--selecter=a"}, "unknown flag: --selecter. Did you mean --selector?"},
		{"archelon", []string{"--watch-fliter=a"}, "unknown flag: --watch-fliter. Did you mean --watch-filter?"},
	} {
		root := command(tc.name)
		root.SetArgs(tc.args)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %q: got %v, want %q", tc.name, tc.args, err, tc.want)
		}
	}
}

// Scripts tell what a check has found from a check that could not look.
func TestExitCodes(t *testing.T) {
	for err, want := range map[error]int{
		fmt.Errorf("looking: %w", check.ErrMissing): 2,
		errors.New("no connection"):                 1,
		// As kubectl diff has it.
		fmt.Errorf("planning: %w", plan.ErrChanges): 1,
		plan.FailedError{}:                          2,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v ends with %d, want %d", err, got, want)
		}
	}
}

// bundleVariable tells the inner process of TestRoots which bundle it should find; empty stands for
// the one that is compiled in.
const bundleVariable = "ARCHELON_TEST_BUNDLE"

// TestRoots runs itself again, because a process reads its bundle once.
func TestRoots(t *testing.T) {
	if bundle, inner := os.LookupEnv(bundleVariable); inner {
		checkRoots(t, bundle)
		return
	}
	if runtime.GOOS != "linux" {
		return // others ask the operating system, not files; the image is for Linux
	}
	dir := t.TempDir()
	bundle := filepath.Join(dir, "bundle.pem")
	if err := os.WriteFile(bundle, authority(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"no bundle": "", "a bundle": bundle} {
		t.Run(name, func(t *testing.T) {
			file := path
			if file == "" {
				file = filepath.Join(dir, "nothing")
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRoots$")
			cmd.Env = append(os.Environ(), bundleVariable+"="+path, "SSL_CERT_FILE="+file, "SSL_CERT_DIR="+filepath.Join(dir, "nowhere"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func checkRoots(t *testing.T, bundle string) {
	t.Helper()
	pool, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if bundle == "" {
		if pool.Equal(x509.NewCertPool()) {
			t.Error("nothing is trusted without a bundle of the system")
		}
		return
	}
	raw, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	want := x509.NewCertPool()
	want.AppendCertsFromPEM(raw)
	if !pool.Equal(want) {
		t.Error("what is trusted is not what the bundle of the system has")
	}
}

// authority is a CA certificate.
func authority(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
