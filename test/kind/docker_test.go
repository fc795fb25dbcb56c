package kind

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeDocker makes a shell script the docker program of this process and its children. It returns a directory, $state
// in the script, where the script can keep what it is to remember.
func fakeDocker(t *testing.T, script string) string {
	t.Helper()
	state, programs := t.TempDir(), t.TempDir()
	write(t, filepath.Join(programs, "docker"), "#!/bin/sh\nstate='"+state+"'\n"+script)
	write(t, filepath.Join(programs, "sleep"), "#!/bin/sh\n") // nobody is waited for
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	return state
}

func write(t *testing.T, path, program string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// checkError checks that an error says all that it should. If want is empty, there should have been none.
func checkError(t *testing.T, reason string, err error, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nwant error %q, got %v", reason, want, err)
		}
	}
}
