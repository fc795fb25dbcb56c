package options

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/archelon-io/archelon/feature"
	importer "github.com/archelon-io/archelon/internal/import"
)

// addSelectorFlags binds what is imported without a label, and when.
func (o *Options) addSelectorFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Import, "import", o.Import,
		"Import CAPI Clusters into Rancher. With false, gate host-claim works where there is neither CAPI nor Rancher.")
	fs.StringSliceVar(&o.ImportClasses, "import-class", o.ImportClasses,
		"Import CAPI Clusters of this ClusterClass without the import label: NAME, or NAMESPACE/NAME.")
	fs.StringSliceVar(&o.ImportNamespaces, "import-namespace", o.ImportNamespaces,
		"The same by namespace; * is all. Of the three, what is set must fit.")
	fs.StringVar(&o.ImportSelector, "import-selector", o.ImportSelector,
		"The same by labels, such as env=prod.")
	fs.StringVar(&o.EarlyImport, "early-import", o.EarlyImport,
		"Which Rancher clusters are created before control planes are available: Never, OnRequest (those of Clusters with "+
			"annotation archelon.io/early-import), or Always (all but those of Clusters whose annotation is \"false\").")
	fs.StringVar(&o.DisplayName, "display-name", o.DisplayName,
		"Display names of new v3 Rancher clusters: Name (that of the CAPI Cluster), or NamespaceName (NAMESPACE-NAME). "+
			"Existing ones keep theirs.")
	fs.IntVar(&o.EarlyPerNamespace, "early-imports-per-namespace", o.EarlyPerNamespace,
		"How many Rancher clusters without a control plane a namespace can have.")
}

// validateImport reports gates that serve the import, if that is off, and an instance that has nothing to do.
func (o *Options) validateImport() error {
	if o.Import {
		return nil
	}
	var problems []error
	for _, gate := range slices.Sorted(maps.Keys(o.Gates.GetAll())) {
		group := strings.HasPrefix(string(gate), "All") // AllAlpha and AllBeta switch others.
		if !group && gate != feature.HostClaim && gate != feature.HostClaimMachines && o.Gates.Enabled(gate) {
			problems = append(problems, fmt.Errorf("gate %s needs the import: switch it off, or leave out --import=false", gate))
		}
	}
	if !o.Gates.Enabled(feature.HostClaim) {
		problems = append(problems, fmt.Errorf("with --import=false there is nothing to do: switch gate %s on, or leave the flag out", feature.HostClaim))
	}
	return errors.Join(problems...)
}

// Selector is what these flags say.
func (o *Options) Selector() (importer.Selector, error) {
	return importer.NewSelector(o.ImportSelector, o.ImportClasses, o.ImportNamespaces)
}

// selectorProblems reports selectors that cannot be read, are empty, or would never fit.
func (o *Options) selectorProblems() []error {
	_, err := o.Selector()
	problems := []error{err}
	if err := importer.EarlyImport(o.EarlyImport).Validate(); err != nil {
		problems = append(problems, fmt.Errorf("--early-import: %w", err))
	}
	if err := importer.DisplayNameForm(o.DisplayName).Validate(); err != nil {
		problems = append(problems, fmt.Errorf("--display-name: %w", err))
	}
	if o.EarlyPerNamespace < 1 {
		problems = append(problems, fmt.Errorf("--early-imports-per-namespace is %d: it has to be at least 1", o.EarlyPerNamespace))
	}
	for option, names := range map[string][]string{"import-class": o.ImportClasses, "import-namespace": o.ImportNamespaces} {
		if names != nil && len(names) == 0 {
			problems = append(problems, fmt.Errorf("--%s is empty: name what to import, or leave the flag out", option))
		}
	}
	scope, err := o.Scope()
	for _, name := range o.ImportNamespaces {
		if err == nil && name != importer.EveryNamespace && !scope.Owns(name) {
			problems = append(problems, fmt.Errorf("--import-namespace %q is none of the namespaces of this instance", name))
		}
	}
	return problems
}
