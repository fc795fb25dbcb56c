package importer

import (
	"errors"
	"fmt"
	"strconv"

	archelonv1 "github.com/archelon-io/archelon/api/v1alpha1"
	"github.com/archelon-io/archelon/internal/outcome"
)

// choice is what the import label asks for.
type choice int

const (
	// leave things as they are: there is no label.
	leave choice = iota
	// include the cluster.
	include
	// exclude the cluster, and un-import it if it is imported.
	exclude
)

// chosen reads the import label on the CAPI cluster, else on its namespace. A value that is not a
// boolean is an error, never silently false.
func chosen(cluster, namespace map[string]string) (choice, error) {
	value, ok := cluster[archelonv1.ImportLabel]
	where := "the Cluster"
	if !ok {
		value, ok = namespace[archelonv1.ImportLabel]
		where = "the Namespace"
	}
	if !ok {
		return leave, nil
	}
	want, err := parseChoice(value)
	if err != nil {
		return leave, fmt.Errorf("label %s on %s is %q. %s", archelonv1.ImportLabel, where, value, outcome.Sentence(err.Error()))
	}
	return want, nil
}

// parseChoice reads the value of an import label. Booleans are read as Go reads them, as in Rancher Turtles.
func parseChoice(value string) (choice, error) {
	selected, err := strconv.ParseBool(value)
	switch {
	case err != nil:
		return leave, errors.New(`set it to "true" to import, or to "false" to un-import`)
	case selected:
		return include, nil
	default:
		return exclude, nil
	}
}
