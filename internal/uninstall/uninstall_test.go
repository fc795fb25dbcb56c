package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/archelon-io/archelon/internal/hold"
	"github.com/archelon-io/archelon/internal/instance"
)

func TestAlive(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lease := func(holder string, ago time.Duration, seconds int32) *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(-ago))
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: &seconds}}
	}
	for name, tc := range map[string]struct {
		lease *coordinationv1.Lease
		want  bool
	}{
		"Held":        {lease("pod-a", 14*time.Second, 15), true},
		"RunOut":      {lease("pod-a", 15*time.Second, 15), false},
		"GivenBack":   {lease("", time.Second, 15), false},
		"Empty":       {&coordinationv1.Lease{}, false},
		"NoDuration":  {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("pod-a"), RenewTime: &metav1.MicroTime{Time: now}}}, false},
		"NeverRenews": {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new("pod-a")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := instance.Held(tc.lease, now); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	valid := func() *Options {
		opts := NewOptions()
		opts.Instance, opts.InstanceNamespace = "archelon", "archelon-system"
		return opts
	}
	for name, tc := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"Defaults":       {func(*Options) {}, ""},
		"NoInstance":     {func(o *Options) { o.Instance = "" }, "--instance must name"},
		"NoNamespace":    {func(o *Options) { o.InstanceNamespace = "" }, "--instance-namespace must name"},
		"NoTime":         {func(o *Options) { o.Timeout = 0 }, "--timeout must be greater than zero"},
		"BadScope":       {func(o *Options) { o.Namespaces = []string{"No_Name"} }, "No_Name"},
		"NothingInScope": {func(o *Options) { o.Namespaces, o.ExcludedNamespaces = []string{"a"}, []string{"a"} }, "--namespace"},
		"OnlyClaims":     {func(o *Options) { o.OnlyHostClaims = true }, ""},
		"OnlyAndStops":   {func(o *Options) { o.OnlyHostClaims, o.Deployment = true, "archelon" }, "--only-host-claims"},
		"LeavesAndDeletes": {func(o *Options) {
			o.RancherKubeconfig, o.LeaveRancher, o.DeleteRancherClusters = "a/b", true, true
		}, "take out --delete-rancher-clusters"},
		"LeavesRancherHere": {func(o *Options) { o.LeaveRancher = true }, "add --rancher-kubeconfig"},
		"SeveralProblems":   {func(o *Options) { o.Instance, o.Timeout = "", -1 }, "--timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := valid()
			tc.change(opts)
			err := opts.Validate()
			if (tc.says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want it to say %q", err, tc.says)
			}
		})
	}
}

// What is another instance's is left alone, also the record of a cluster that is gone and may
// have had another watch filter.
func TestOurs(t *testing.T) {
	cluster := func(uid, by string) object {
		found := object{}
		found.UID = types.UID(uid)
		if by != "" {
			found.Annotations = map[string]string{"archelon.io/instance": by}
		}
		return found
	}
	record := &object{}
	record.Labels = map[string]string{"archelon.io/capi-cluster-uid": "uid-1"}
	for name, tc := range map[string]struct {
		cluster object
		filter  string
		want    bool
	}{
		"Ours":             {cluster("uid-1", "archelon-system/archelon"), "", true},
		"Nobodys":          {cluster("uid-1", ""), "", true},
		"Unelected":        {cluster("uid-1", "archelon"), "", true},
		"UnelectedOutside": {cluster("uid-1", "archelon"), "blue", false},
		"OtherUnelected":   {cluster("uid-1", "archelon2"), "", true},
		"Anothers":         {cluster("uid-1", "other-system/archelon"), "", false},
		"OfOneThatIsGone":  {cluster("uid-1", "gone-system/archelon"), "", true},
		"ItsClusterIsGone": {cluster("uid-2", "other-system/archelon"), "", true},
		"ItsClusterIsGone, and may have been another's": {cluster("uid-2", ""), "blue", false},
		"Outside":    {cluster("uid-1", ""), "blue", false},
		"OursBefore": {cluster("uid-1", "archelon-system/archelon"), "blue", true},
	} {
		t.Run(name, func(t *testing.T) {
			u := &uninstaller{
				opts: &Options{WatchFilter: tc.filter}, self: instance.ID{Namespace: "archelon-system", Name: "archelon"}, others: otherInstance(t, true),
			}
			owner := &tc.cluster
			if string(owner.UID) != "uid-1" {
				owner = nil
			}
			if got := u.ours(hold.Imports(), record, owner); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestFew(t *testing.T) {
	if few(nil) != nil {
		t.Error("no errors are no error")
	}
	var errs []error
	for i := range 10 {
		errs = append(errs, fmt.Errorf("cluster %d: %w", i, errors.ErrUnsupported))
	}
	text := few(errs).Error()
	if !strings.Contains(text, "cluster 2") || strings.Contains(text, "cluster 3") || !strings.Contains(text, "and 7 more") {
		t.Errorf("got %q, want three errors and how many more", text)
	}
}

// The error that is told when time is up is the last one that says something. A client refuses a request at the
// deadline, while the context lives on for a moment.
func TestUntilTellsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*pause)
		defer cancel()
		deadline, _ := ctx.Deadline()
		u := &uninstaller{opts: &Options{}, out: io.Discard}
		err := u.until(ctx, func(context.Context) (bool, error) {
			if !time.Now().Before(deadline) {
				return false, errors.New("would exceed context deadline")
			}
			if !time.Now().Before(deadline.Add(-pause)) {
				return false, errors.New("the cause")
			}
			return false, nil
		})
		if err == nil || !strings.Contains(err.Error(), "the cause") || strings.Contains(err.Error(), "would exceed") {
			t.Errorf("got %v, want the cause", err)
		}
	})
}
