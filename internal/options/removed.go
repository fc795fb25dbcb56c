package options

import (
	"errors"

	"github.com/spf13/pflag"
)

// addRemovedFlags keeps the flags that an earlier version had, hidden, so that whoever still sets one is told what to
// do about it. They go with the next release but one.
func addRemovedFlags(fs *pflag.FlagSet) {
	for _, name := range []string{"bind-address", "cert-dir", "secret", "service", "configuration"} {
		flag := fs.VarPF(removed("the admission webhook is gone: leave the flag out; a ValidatingAdmissionPolicy of the "+
			"chart refuses now what the webhook refused"), "webhook-"+name, "", "Removed.")
		flag.Hidden = true
	}
}

// removed is the value of a flag that is not there any more: the sentence that says so.
type removed string

// Set implements pflag.Value. It always fails.
func (r removed) Set(string) error { return errors.New(string(r)) }

// String implements pflag.Value.
func (removed) String() string { return "" }

// Type implements pflag.Value.
func (removed) Type() string { return "string" }
