package check

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"

	"github.com/archelon-io/archelon/internal/controller"
	"github.com/archelon-io/archelon/internal/terminal"
)

// Command returns "check" for the controllers that there are. It has the flags of kubectl for the connection.
func Command(controllers func(imports bool) []controller.Controller, gates featuregate.MutableFeatureGate) *cobra.Command {
	opts := Options{
		Controllers: controllers, Gates: gates, Import: true, TurtlesNamespaces: []string{"cattle-turtles-system", "rancher-turtles-system"},
		RancherNamespace: "archelon-system", Timeout: time.Minute,
	}
	how := output{}
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Look for what is missing before an installation or an upgrade",
		Long: "Look for what would stand in the way of an installation or an upgrade: Kubernetes, the CRDs of CAPI, Rancher and what\n" +
			"gates need, Rancher Turtles, Rancher's address and certificate, other instances, permissions, and with gate\n" +
			"remote-rancher Rancher's cluster. It writes nothing: its access reviews are not stored. The exit code is 0 if\n" +
			"nothing stands in the way, 2 if something does, and 1 if it could not be found out. Warnings do not count.",
		Example: "  archelon check --turtles-parked\n" +
			"  archelon check --feature-gates=managementv3-cluster=true -o json\n" +
			"  archelon check --service-account=archelon-system/archelon",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := how.validate(opts); err != nil {
				return err
			}
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
			if err != nil {
				return fmt.Errorf("finding the management cluster: %w", err)
			}
			found, err := Look(cmd.Context(), config, opts)
			if err != nil {
				return err
			}
			if err := (&printer{form: how.form, headers: !how.noHeaders, out: cmd.OutOrStdout()}).write(found); err != nil {
				return err
			}
			return worst(found)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "", "Path of a kubeconfig. Default: as kubectl has it, in a Pod the ServiceAccount.")
	connection := clientcmd.RecommendedConfigOverrideFlags("")
	// As the manager has it, it says something else.
	connection.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(overrides, flags, connection)
	gates.AddFlag(flags)
	opts.addFlags(flags)
	how.addFlags(flags)
	return cmd
}

// output says how findings are printed.
type output struct {
	form      string
	noHeaders bool
}

func (o *output) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.form, "output", "o", "", "Form of the output: json or yaml. Default: a table.")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "Leave out the first line of the table.")
}

// validate reports what cannot be used.
func (o *output) validate(opts Options) error {
	switch o.form {
	case terminal.Table, terminal.JSON, terminal.YAML:
	default:
		return fmt.Errorf("--output is %q; it can be json or yaml", o.form)
	}
	if opts.Timeout <= 0 {
		return errors.New("--timeout must be greater than zero")
	}
	return nil
}

func (o *Options) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Import, "import", o.Import, "As the manager has it: false if CAPI Clusters are not imported into Rancher.")
	flags.StringSliceVar(&o.Namespaces, "namespace", nil, "As the manager has it: namespace that it is to work in; repeatable. Default: all.")
	flags.StringSliceVar(&o.ExcludedNamespaces, "excluded-namespace", nil, "As the manager has it: namespace that it is not to work in; repeatable.")
	flags.StringVar(&o.WatchFilter, "watch-filter", "", "As the manager has it: value of the label cluster.x-k8s.io/watch-filter.")
	flags.StringVar(&o.Instance, "instance", "", "As the manager has it: name of the instance.")
	flags.StringVar(&o.LeaderElectNamespace, "leader-elect-namespace", "",
		"As the manager has it: namespace of the Leases of all instances. Default: Leases of instances are looked for in all namespaces.")
	flags.BoolVar(&o.TurtlesParked, "turtles-parked", false, "As the manager has it: Rancher Turtles runs and its importer is parked.")
	flags.StringSliceVar(&o.TurtlesNamespaces, "turtles-namespace", o.TurtlesNamespaces,
		"As the manager has it: namespace that Rancher Turtles runs in, if it does; repeatable.")
	flags.StringVar(&o.RancherKubeconfig, "rancher-kubeconfig", "",
		"As the manager has it: Secret NAMESPACE/NAME with the kubeconfig of Rancher's cluster, for gate remote-rancher.")
	flags.StringVar(&o.RancherNamespace, "rancher-namespace", o.RancherNamespace,
		"As the manager has it: namespace of the Rancher side of the chart, for gate remote-rancher.")
	flags.StringVar(&o.ServiceAccount, "service-account", "",
		"Look at the permissions of this ServiceAccount, as <namespace>/<name>, for example that of a release. Default: those of the caller.")
	flags.DurationVar(&o.Timeout, "timeout", o.Timeout, "Time limit for all of it.")
}

// printer prints findings.
type printer struct {
	form    string
	headers bool
	out     io.Writer
}

// list is the form of findings in JSON and YAML.
type list struct {
	metav1.TypeMeta `json:",inline"`

	Items []Finding `json:"items"`
}

// columnGap is between columns.
const columnGap = 3

// write prints findings, each on a line, and below the table what to do about those that are not fine.
func (p *printer) write(found []Finding) error {
	if p.form != terminal.Table {
		return terminal.Document(p.out, p.form, list{
			TypeMeta: metav1.TypeMeta{APIVersion: "archelon.io/v1alpha1", Kind: "CheckFindingList"},
			Items:    append([]Finding{}, found...),
		})
	}
	lines := tabwriter.NewWriter(p.out, 0, 0, columnGap, ' ', 0)
	if p.headers {
		_, _ = fmt.Fprintln(lines, "STATE\tCHECK\tFOUND") // Flush has the error.
	}
	remedies := &strings.Builder{}
	for _, f := range found {
		_, _ = fmt.Fprintf(lines, "%s\t%s\t%s\n", f.State, terminal.Printable(f.ID), cmp.Or(terminal.Printable(f.Message), "-"))
		if f.State != OK && f.Remedy != "" {
			fmt.Fprintf(remedies, "\n%s: %s\n", terminal.Printable(f.ID), terminal.Printable(f.Remedy))
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(p.out, remedies.String())
	return err
}
