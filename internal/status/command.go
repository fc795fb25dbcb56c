package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
	"github.com/archelon-io/archelon/internal/terminal"
)

// Options say which clusters are shown, and how.
type Options struct {
	// Namespace is empty for all.
	Namespace string
	// Names, if there are any, are those of the CAPI Clusters that are shown.
	Names []string
	// Selector is for labels of CAPI Clusters.
	Selector string
	// Reasons, if there are any, are those of the condition that are shown.
	Reasons []string
	// Instance, if set, is the one whose clusters are shown.
	Instance string
	// NotImported shows only what is not imported.
	NotImported bool
	// Output is empty for a table, or "wide", "json" or "yaml".
	Output string
	// NoHeaders leaves out the first line of a table.
	NoHeaders bool
	// Watch goes on with what changes, until the context ends.
	Watch bool

	// RancherKubeconfig is the Secret "namespace/name" with the kubeconfig of Rancher's
	// cluster, where that is another one.
	RancherKubeconfig string
	// Orphans shows only Rancher clusters that have no CAPI Cluster.
	Orphans bool
	// Timeout bounds how long Rancher's cluster may take.
	Timeout time.Duration
}

// Command returns "status". It has the flags of kubectl for the connection.
func Command() *cobra.Command {
	opts := &Options{Timeout: 10 * time.Second}
	all := false
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	connection := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	cmd := &cobra.Command{
		Use:   "status [NAME]...",
		Short: "Show which CAPI clusters are imported, and why others are not",
		Long: "Show for each CAPI cluster, or those with the given names, the state of its import, the reason, since when, its Rancher cluster, Rancher's agent,\n" +
			"and the instance that works on it. It needs the permission to list clusters.cluster.x-k8s.io, and with --watch\n" +
			"to watch them. It writes nothing. The exit code is 0 whatever the state of the clusters is, and 1 if it cannot be read.\n" +
			"Where Rancher is in another cluster, it looks into both, with the credentials that the manager has.",
		Example: "  archelon status -A\n" +
			"  archelon status -n team-a prod\n" +
			"  archelon status -n team-a -o wide --not-imported\n" +
			"  archelon status -A --reason=WaitingForAgent --watch\n" +
			"  archelon status -A --orphans --rancher-kubeconfig=archelon-system/rancher-kubeconfig",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, names []string) error {
			if opts.Names = names; len(names) > 0 && opts.Output == terminal.Table {
				opts.Output = formWide
			}
			config, err := connection.ClientConfig()
			if err != nil {
				return fmt.Errorf("finding the management cluster: %w", err)
			}
			if !all {
				if opts.Namespace, _, err = connection.Namespace(); err != nil {
					return fmt.Errorf("finding the namespace: %w", err)
				}
			}
			known, err := scheme.New()
			if err != nil {
				return err
			}
			c, err := client.NewWithWatch(config, client.Options{Scheme: known, Mapper: scheme.Mapper()})
			if err != nil {
				return err
			}
			if opts.elsewhere() || opts.Orphans {
				return runElsewhere(cmd.Context(), config, c, *opts, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return Run(cmd.Context(), c, *opts, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "", "Path of a kubeconfig. Default: as kubectl has it, in a Pod the ServiceAccount.")
	clientcmd.BindOverrideFlags(overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	flags.BoolVarP(&all, "all-namespaces", "A", false, "Show the clusters of all namespaces.")
	addFlags(flags, opts)
	return cmd
}

func addFlags(flags *pflag.FlagSet, o *Options) {
	flags.StringVarP(&o.Selector, "selector", "l", "", "Show CAPI Clusters with these labels only, as kubectl has it.")
	flags.StringSliceVar(&o.Reasons, "reason", nil, "Show clusters with this reason only; repeatable.")
	flags.StringVar(&o.Instance, "instance", "", "Show the clusters of this instance only, as <namespace>/<name>.")
	flags.BoolVar(&o.NotImported, "not-imported", false, "Show only clusters that are not imported.")
	flags.StringVarP(&o.Output, "output", "o", "", "Form of the output: wide, json or yaml. Default: a table.")
	flags.BoolVar(&o.NoHeaders, "no-headers", false, "Leave out the first line of the table.")
	flags.BoolVarP(&o.Watch, "watch", "w", false, "Go on with what changes.")
	flags.StringVar(&o.RancherKubeconfig, "rancher-kubeconfig", "",
		"As the manager has it: Secret NAMESPACE/NAME with the kubeconfig of Rancher's cluster, where that is another one.")
	flags.BoolVar(&o.Orphans, "orphans", false,
		"Show only Rancher clusters that have no CAPI Cluster, where Rancher is in another cluster. Nothing deletes them "+
			"automatically.")
	flags.DurationVar(&o.Timeout, "timeout", o.Timeout, "How long Rancher's cluster may take, where that is another one.")
}

// Run prints clusters to out, and what is no cluster to notes.
func Run(ctx context.Context, c client.WithWatch, opts Options, out, notes io.Writer) error {
	which, err := opts.which()
	if err != nil {
		return err
	}
	found := &clusterv1.ClusterList{}
	if err := c.List(ctx, found, which); err != nil {
		return explain(err)
	}
	var clusters []Cluster
	t := &teller{opts: opts, shown: map[string]Cluster{}}
	for i := range found.Items {
		cluster := Of(&found.Items[i])
		t.shown[key(cluster)] = cluster
		if opts.shows(cluster) {
			clusters = append(clusters, cluster)
		}
	}
	if err := opts.missing(slices.Collect(maps.Values(t.shown))); err != nil {
		return err
	}
	slices.SortFunc(clusters, compare)
	t.printer = &printer{form: opts.Output, headers: !opts.NoHeaders, out: out, now: time.Now}
	if len(clusters) == 0 && (opts.Output == terminal.Table || opts.Output == formWide) {
		if _, err := fmt.Fprintln(notes, opts.nothing()); err != nil {
			return err
		}
	} else if err := t.printer.all(list{Items: clusters}); err != nil {
		return err
	}
	if !opts.Watch {
		return nil
	}
	return t.follow(ctx, c, which, found.ResourceVersion)
}

// which says what is listed. It fails for options that cannot be used.
func (o Options) which() (*client.ListOptions, error) {
	switch o.Output {
	case terminal.Table, formWide, terminal.JSON, terminal.YAML:
	default:
		return nil, fmt.Errorf("--output is %q; it can be wide, json or yaml", o.Output)
	}
	selector, err := labels.Parse(o.Selector)
	if err != nil {
		return nil, fmt.Errorf("--selector: %w", err)
	}
	return &client.ListOptions{Namespace: o.Namespace, LabelSelector: selector}, nil
}

func key(c Cluster) string { return c.Namespace + "/" + c.Name }

// shows reports whether a cluster is one of those that are asked for.
func (o Options) shows(c Cluster) bool {
	return (len(o.Names) == 0 || slices.Contains(o.Names, c.Name)) && (len(o.Reasons) == 0 || slices.Contains(o.Reasons, c.Reason)) &&
		(o.Instance == "" || o.Instance == c.Instance) && (!o.NotImported || c.Imported != string(metav1.ConditionTrue))
}

// missing returns an error if there is no CAPI Cluster of a name that was asked for.
func (o Options) missing(found []Cluster) error {
	var errs []error
	for _, name := range o.Names {
		if slices.ContainsFunc(found, func(c Cluster) bool { return c.Name == name }) {
			continue
		}
		where, known := "", make([]string, 0, len(found))
		if o.Namespace != "" {
			where = " in namespace " + o.Namespace
		}
		for _, c := range found {
			known = append(known, c.Name)
		}
		errs = append(errs, fmt.Errorf("no CAPI cluster %q found%s%s", name, where, terminal.Suggestion(name, known)))
	}
	return errors.Join(errs...)
}

// nothing is said where there are no clusters.
func (o Options) nothing() string {
	if o.Orphans {
		return "No Rancher clusters without a CAPI cluster found"
	}
	what := "No CAPI clusters found"
	if o.Selector != "" || len(o.Reasons) > 0 || o.Instance != "" || o.NotImported {
		what = "No such CAPI clusters found"
	}
	if o.Namespace != "" {
		return what + " in namespace " + o.Namespace + ". All namespaces: --all-namespaces"
	}
	return what
}

// explain says what to do about a list that failed.
func explain(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("this cluster does not serve %s; Archelon needs CAPI 1.11 or newer: %w",
			strings.ToLower(clusterv1.GroupVersion.String()), err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("listing CAPI clusters is not permitted; name a namespace with -n, or ask for the permission "+
			"to list clusters.cluster.x-k8s.io: %w", err)
	default:
		return fmt.Errorf("listing CAPI clusters: %w", err)
	}
}
