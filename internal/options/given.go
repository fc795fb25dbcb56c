package options

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/archelon-io/archelon/internal/terminal"
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

// SuggestFlag adds to the error about a flag that does not exist the one that may be meant.
func SuggestFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var known []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { known = append(known, "--"+flag.Name) })
	return fmt.Errorf("%w%s", err, terminal.Suggestion("--"+unknown.GetSpecifiedName(), known))
}
