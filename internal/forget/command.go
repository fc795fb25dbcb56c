package forget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/archelon-io/archelon/internal/scheme"
)

// Requests per second. There are up to four for each Rancher cluster.
const (
	requests = 50
	burst    = 100
)

// Options say what is forgotten.
type Options struct {
	// UID is that of namespace kube-system of the management cluster.
	UID types.UID
	// Yes has it done; otherwise it is listed.
	Yes bool
	// Delete deletes the Rancher clusters; otherwise they stay in Rancher.
	Delete bool
	// IgnoreSeat goes on although an Archelon serves the management cluster.
	IgnoreSeat bool
	// Timeout bounds all of it.
	Timeout time.Duration
}

// Command returns "forget". It has the flags of kubectl for the connection to Rancher's cluster.
func Command() *cobra.Command {
	opts := Options{Timeout: 30 * time.Minute}
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	cmd := &cobra.Command{
		Use:   "forget MANAGEMENT-CLUSTER-UID",
		Short: "Let go of the Rancher clusters of a management cluster that is gone for good",
		Long: "List the Rancher clusters of a management cluster that is gone for good, and what would become of\n" +
			"them. With --yes they are released: they stay in Rancher, and nothing of Archelon holds them or knows\n" +
			"them any more. With --yes and --delete they are deleted. Run it in Rancher's cluster. It refuses a\n" +
			"management cluster that can still connect, or that an Archelon serves. It can be interrupted, and run again at any time. The exit\n" +
			"code is 1 if it refused, or if something is left.",
		Example: "  archelon forget 4b1a5e3c-5a0f-4d0e-9f5c-0b6c1f3d2e11\n" +
			"  archelon forget 4b1a5e3c-5a0f-4d0e-9f5c-0b6c1f3d2e11 --yes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
			if err != nil {
				return fmt.Errorf("finding Rancher's cluster: %w", err)
			}
			opts.UID = types.UID(args[0])
			return Run(ctrl.SetupSignalHandler(), config, opts, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "",
		"Path of a kubeconfig of Rancher's cluster. Default: as kubectl has it.")
	clientcmd.BindOverrideFlags(overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	flags.BoolVar(&opts.Yes, "yes", false, "Do what is listed. Without it nothing is written.")
	flags.BoolVar(&opts.Delete, "delete", false, "Delete the Rancher clusters, instead of leaving them in Rancher.")
	flags.BoolVar(&opts.IgnoreSeat, "ignore-seat", false,
		"Go on although an Archelon serves the management cluster.")
	flags.DurationVar(&opts.Timeout, "timeout", opts.Timeout,
		"Time limit for all of it. When it is over, run it again.")
	return cmd
}

// Run lists the Rancher clusters of a management cluster, and lets go of them if the options say so. It prints what it
// does. The error says what is left.
func Run(ctx context.Context, config *rest.Config, opts Options, out io.Writer) error {
	if err := opts.validate(); err != nil {
		return err
	}
	known, err := scheme.New()
	if err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	config = rest.AddUserAgent(rest.CopyConfig(config), "archelon-forget")
	config.QPS, config.Burst = requests, burst
	c, err := client.NewWithWatch(config, client.Options{Scheme: known, Mapper: mapper()})
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, opts.Timeout)
	defer cancel()
	return newForgetter(c, opts, out).run(ctx)
}

func (o Options) validate() error {
	var problems []error
	if o.UID == "" || len(validation.IsValidLabelValue(string(o.UID))) > 0 {
		problems = append(problems,
			errors.New("the argument must be the UID of namespace kube-system of the management cluster"))
	}
	if o.Timeout <= 0 {
		problems = append(problems, errors.New("--timeout must be greater than zero"))
	}
	return errors.Join(problems...)
}

// mapper knows ClusterRoleBindings besides the kinds that the manager works with.
func mapper() meta.RESTMapper {
	bindings := meta.NewDefaultRESTMapper(nil)
	bindings.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"), meta.RESTScopeRoot)
	return meta.MultiRESTMapper{scheme.Mapper(), bindings}
}
