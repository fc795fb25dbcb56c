package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/terminal"
)

// managerFlags are those of the manager that change what it does with clusters. The others are accepted, so that the
// arguments of a manager can be given as they are, and are not shown.
var managerFlags = []string{ //nolint:gochecknoglobals // it is never changed
	"adopt-turtles", "agent-default-env", "agent-default-tolerations", "agent-disconnect-grace", "agent-setting",
	"cluster-class-labels", "display-name", "excluded-namespace", "feature-gates", "fleet-workspace", "instance", "leader-elect-namespace", "namespace", "namespace-selector",
	"propagated-annotation", "rancher-kubeconfig", "turtles-namespace", "turtles-parked", "unpropagated-label", "watch-filter",
}

// FailedError is that a plan could not be made, and why.
type FailedError struct{ error }

// Unwrap returns the cause.
func (f FailedError) Unwrap() error { return f.error }

// Command returns "plan". It has the flags of the manager, and those of kubectl for the connection.
func Command() *cobra.Command {
	manager, err := options.New()
	if err != nil {
		return &cobra.Command{Use: "plan", RunE: func(*cobra.Command, []string) error { return FailedError{err} }}
	}
	opts, how, timeout := Options{Manager: manager}, output{}, time.Minute
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	cmd := &cobra.Command{
		Use:   "plan [NAMESPACE | NAMESPACE/NAME]...",
		Short: "Show what the manager would do, and write nothing",
		Long: "Show what a manager with these flags would write to the management cluster, for all CAPI clusters, those of\n" +
			"a namespace or one, until it waits for Rancher or a user. It has the import work on a copy in memory. Workload\n" +
			"clusters are not looked into. The exit code is 0 if nothing would change, 1 if something would, and 2 if it\n" +
			"could not be found out.",
		Example: "  archelon plan --label=team-a\n" +
			"  archelon plan --feature-gates=managementv3-cluster=true -o json\n" +
			"  archelon plan team-a/prod --adopt-turtles --turtles-parked",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
			if err != nil {
				return FailedError{fmt.Errorf("finding the management cluster: %w", err)}
			}
			opts.Which = args
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			plans, err := run(ctx, config, opts, how, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if err != nil {
				return FailedError{err}
			}
			return changes(plans)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return FailedError{err} })
	flags := cmd.Flags()
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "", "Path of a kubeconfig. Default: as kubectl has it, in a Pod the ServiceAccount.")
	connection := clientcmd.RecommendedConfigOverrideFlags("")
	// As the manager has it, it says something else.
	connection.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(overrides, flags, connection)
	addManagerFlags(flags, manager)
	flags.StringSliceVar(&opts.Labels, "label", nil,
		"Where the import label is about to be set, as <namespace>[/<cluster>][=false]; repeatable.")
	flags.DurationVar(&timeout, "timeout", timeout, "Time limit for all of it.")
	how.addFlags(flags)
	return cmd
}

// run prints plans, and returns them.
func run(ctx context.Context, config *rest.Config, opts Options, how output, out, notes io.Writer) ([]Cluster, error) {
	if err := errors.Join(how.validate(), opts.Manager.Validate()); err != nil {
		return nil, err
	}
	known, err := scheme.New()
	if err != nil {
		return nil, err
	}
	reader, err := client.New(config, client.Options{Scheme: known, Mapper: scheme.Mapper()})
	if err != nil {
		return nil, err
	}
	from, err := whence(ctx, config, reader, opts)
	if err != nil {
		return nil, err
	}
	plans, err := Look(ctx, from, opts)
	if err != nil {
		return nil, err
	}
	return plans, how.write(out, notes, plans, len(opts.Which) > 0)
}

// addManagerFlags adds the flags of the manager that there are not yet.
func addManagerFlags(flags *pflag.FlagSet, manager *options.Options) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	manager.AddFlags(all)
	all.VisitAll(func(flag *pflag.Flag) {
		if flags.Lookup(flag.Name) != nil {
			return
		}
		if flags.ShorthandLookup(flag.Shorthand) != nil {
			flag.Shorthand = ""
		}
		flag.Hidden = !slices.Contains(managerFlags, flag.Name)
		flags.AddFlag(flag)
	})
}

// output says how plans are printed.
type output struct {
	form      string
	noHeaders bool
}

func (o *output) addFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.form, "output", "o", "", "Form of the output: json or yaml. Default: a table.")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "Leave out the first line of the table.")
}

func (o *output) validate() error {
	switch o.form {
	case terminal.Table, terminal.JSON, terminal.YAML:
		return nil
	default:
		return fmt.Errorf("--output is %q; it can be json or yaml", o.form)
	}
}

// list is the form of plans in JSON and YAML.
type list struct {
	metav1.TypeMeta `json:",inline"`

	Items []Cluster `json:"items"`
}

// columnGap is between columns.
const columnGap = 3

// write prints plans. A table has the changes, and what is named too if nothing changes. What was not looked at is no
// part of it.
func (o *output) write(out, notes io.Writer, plans []Cluster, named bool) error {
	if o.form != terminal.Table {
		return terminal.Document(out, o.form, list{
			TypeMeta: metav1.TypeMeta{APIVersion: "archelon.io/v1alpha1", Kind: "ClusterPlanList"},
			Items:    append([]Cluster{}, plans...),
		})
	}
	lines := tabwriter.NewWriter(out, 0, 0, columnGap, ' ', 0)
	if !o.noHeaders {
		_, _ = fmt.Fprintln(lines, "NAMESPACE\tNAME\tINTENT\tVERB\tDOES") // Flush has the error.
	}
	changed, agents := 0, 0
	for _, plan := range plans {
		row := func(verb, does string) {
			_, _ = fmt.Fprintf(lines, "%s\t%s\t%s\t%s\t%s\n",
				terminal.Printable(plan.Namespace), terminal.Printable(plan.Name), plan.Intent, verb, terminal.Printable(does))
		}
		for _, change := range plan.Changes {
			row(change.Verb, change.Does)
		}
		if len(plan.Changes) > 0 {
			changed++
		}
		if named || len(plan.Changes) > 0 {
			row("-", plan.then())
		}
		if plan.Agent != "" {
			agents++
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("%d of %d CAPI clusters would change.", changed, len(plans))
	if agents > 0 {
		text += fmt.Sprintf(" What happens in workload clusters is not known; agents that would be looked at: %d.", agents)
	}
	_, err := fmt.Fprintln(notes, text)
	return err
}

// then says what comes after the changes.
func (c Cluster) then() string {
	switch {
	case c.Agent != "":
		by := ""
		if c.Kubeconfig != "" {
			by = ", kubeconfig: Secret " + c.Kubeconfig
		}
		return "then look at the agent in the workload cluster (agent: " + c.Agent + by + ")"
	case c.Reason == "":
		return "then nothing"
	default:
		return strings.TrimSuffix("then "+c.Reason+": "+c.Message, ": ")
	}
}
