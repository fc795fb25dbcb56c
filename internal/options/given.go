package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// emptyMeansNone are flags with a default, for which an empty value has a meaning: none of it.
var emptyMeansNone = []string{"fleet-workspace"} //nolint:gochecknoglobals // it is never changed

// CheckGiven refuses flags that are given without a value, as in --namespace-selector= or --watch-filter=" ". Mostly a
// variable of a script is empty, and a restriction that somebody wanted would be silently left out.
func CheckGiven(flags *pflag.FlagSet) error {
	var problems []error
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		blank := len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" })
		if blank && !slices.Contains(emptyMeansNone, f.Name) {
			problems = append(problems, fmt.Errorf("--%s is given without a value: give it one, or leave the flag out", f.Name))
		}
	})
	return errors.Join(problems...)
}
