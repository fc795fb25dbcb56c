package capi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/archelon-io/archelon/providers/capi/kubeconfig"
)

// holding returns the Secret of a Cluster with another name and key than CAPI's, and a kubeconfig of a server in it.
func holding(s *server, name, token string) *corev1.Secret {
	access := s.access(token)
	text := kubeconfigOf(fmt.Sprintf("server: %q, certificate-authority-data: %s",
		access.Host, base64.StdEncoding.EncodeToString(access.CAData)), "token: "+token)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-admin"}, Data: map[string][]byte{"config": []byte(text)},
	}
}

// inAdmin says that kubeconfigs are in Secrets NAME-admin.
func inAdmin(ccl *clusterv1.Cluster) (kubeconfig.Source, error) {
	return kubeconfig.Source{
		Secret: types.NamespacedName{Namespace: ccl.Namespace, Name: ccl.Name + "-admin"}, Key: "config", Author: "its owner",
	}, nil
}

// A Secret of another name than CAPI's is followed: its rotation is noticed by its event, and so is its deletion.
func TestSecretsOfAnotherName(t *testing.T) {
	t.Parallel()
	s := newServer(t, "a")
	secrets := fake.NewClientBuilder().WithObjects(holding(s, "one", "a"), holding(s, "two", "a")).Build()
	f := newFleet(t, func(o *Options) {
		o.GetSecret, o.Source = nil, inAdmin
		o.Timing.Rotation = long
		o.completeKubeconfigs(secrets)
		o.ClustersOf = nil
	})
	one := nameOf("one")
	f.ensure(t.Context(), provisionedCluster("one"))
	f.becomes(one, Engaged, EngagedReason)
	s.accept("a", "b")
	next := holding(s, "one", "b")
	if err := secrets.Update(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	f.secretChanged(t.Context(), next)
	eventually(t, "the kubeconfig is replaced", func() bool { return s.sent("b") > 0 })
	if err := secrets.Delete(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	f.secretChanged(t.Context(), next)
	f.becomes(one, Degraded, RotationFailingReason)
}

// The Secret of an earlier Cluster of the name is not used: it leads to a control plane that is gone, or to one that is
// still being deleted.
func TestASecretOfAnEarlierClusterIsNotUsed(t *testing.T) {
	t.Parallel()
	s := newServer(t, "a")
	left := holding(s, "one", "a")
	left.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "one", UID: "before"}}
	secrets := fake.NewClientBuilder().WithObjects(left).Build()
	f := newFleet(t, func(o *Options) {
		o.GetSecret, o.Source = nil, inAdmin
		o.completeKubeconfigs(secrets)
	})
	f.ensure(t.Context(), provisionedCluster("one"))
	f.becomes(nameOf("one"), Pending, kubeconfig.MissingReason)
	if got := s.sent("a"); got != 0 {
		t.Errorf("its credentials were used %d times", got)
	}
}

// Without events of Secrets the kubeconfig is read again by itself.
func TestUnwatchedSecrets(t *testing.T) {
	t.Parallel()
	s := newServer(t, "a", "b")
	secrets := fake.NewClientBuilder().WithObjects(holding(s, "one", "a")).Build()
	f := newFleet(t, func(o *Options) {
		o.GetSecret, o.Source, o.UnwatchedSecrets = nil, inAdmin, true
		o.Timing.Reread, o.Timing.ProbeEvery, o.Timing.Rotation = 50*time.Millisecond, long, long
		o.completeKubeconfigs(secrets)
	})
	f.ensure(t.Context(), provisionedCluster("one"))
	f.becomes(nameOf("one"), Engaged, EngagedReason)
	next := holding(s, "one", "b")
	if err := secrets.Update(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kubeconfig is replaced", func() bool { return s.sent("b") > 0 })
	if err := secrets.Delete(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	f.becomes(nameOf("one"), Degraded, RotationFailingReason)
}

// What a GetSecret of others returns decides what becomes of a connection that works.
func TestErrorsOfGetSecret(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		state  State
		reason string
	}{
		"Ended":    {fmt.Errorf("the contract: %w", ErrAccessEnded), Disconnected, AccessEndedReason},
		"NotFound": {apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "x"), Degraded, RotationFailingReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "a")
			f := newFleet(t, func(o *Options) { o.Timing.Rotation = long })
			one := f.add("one", s.access("a"))
			f.becomes(one, Engaged, EngagedReason)
			f.mu.Lock()
			f.err = tc.err
			f.mu.Unlock()
			f.changed("one")
			f.becomes(one, tc.state, tc.reason)
			if tc.state == Disconnected {
				eventually(t, "the connection is closed", func() bool { return s.open() == 0 })
			}
			f.mu.Lock()
			f.err = nil
			f.mu.Unlock()
			f.changed("one")
			f.becomes(one, Engaged, EngagedReason)
		})
	}
}

// A GetSecret of others may depend on the Cluster: it is asked again when people change it.
func TestGetSecretIsAskedAgainWhenTheClusterChanges(t *testing.T) {
	t.Parallel()
	s := newServer(t, "a", "b")
	f := newFleet(t, nil)
	f.becomes(f.add("one", s.access("a")), Engaged, EngagedReason)
	f.mu.Lock()
	f.access["one"] = s.access("b")
	f.mu.Unlock()
	ccl := provisionedCluster("one")
	ccl.Labels = map[string]string{"account": "b"}
	f.ensure(t.Context(), ccl)
	eventually(t, "the kubeconfig is replaced", func() bool { return s.sent("b") > 0 })
}

func TestIsReady(t *testing.T) {
	t.Parallel()
	s := newServer(t, "a")
	f := newFleet(t, func(o *Options) {
		o.IsReady = func(_ context.Context, ccl *clusterv1.Cluster) bool { return ccl.Labels["ready"] == "yes" }
	})
	late, early := f.add("late", s.access("a")), nameOf("early")
	f.give("early", s.access("a"))
	ccl := provisionedCluster("early")
	ccl.Labels, ccl.Status.Phase = map[string]string{"ready": "yes"}, ""
	f.ensure(t.Context(), ccl)
	f.becomes(early, Engaged, EngagedReason)
	f.becomes(late, Pending, NotProvisionedReason)
	if message := f.status(late).Message; !strings.Contains(message, "IsReady") {
		t.Errorf("it does not say who says no: %s", message)
	}
	// One that was ready stays.
	ccl = ccl.DeepCopy()
	ccl.Labels = nil
	f.ensure(t.Context(), ccl)
	s.probed(t, 2)
	f.becomes(early, Engaged, EngagedReason)
}

func TestListClusters(t *testing.T) {
	t.Parallel()
	s := newServer(t, "a")
	f := newFleet(t, nil)
	if found := f.ListClusters(); len(found) != 0 {
		t.Errorf("got %v before there are clusters", found)
	}
	f.becomes(f.add("two", s.access("a")), Engaged, EngagedReason)
	f.becomes(f.add("one", s.access("a")), Engaged, EngagedReason)
	f.becomes(f.add("none", nil), Pending, kubeconfig.MissingReason)
	if found, want := f.ListClusters(), []multicluster.ClusterName{"default/one", "default/two"}; !slices.Equal(found, want) {
		t.Errorf("got %v, want %v", found, want)
	}
}

// Programs are run for those that are allowed, and for no others.
func TestProgramsThatAreAllowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "token")
	script := "#!/bin/sh\ntouch " + dir + "/ran\n" +
		`echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"a"}}'` + "\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ran := func() bool {
		_, err := os.Stat(filepath.Join(dir, "ran"))
		return err == nil
	}
	s := newServer(t, "a")
	for _, tc := range []struct {
		allowed bool
		state   State
		reason  string
	}{{false, Pending, kubeconfig.ExecReason}, {true, Engaged, EngagedReason}} {
		access := s.access("")
		secrets := fake.NewClientBuilder().WithObjects(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one-admin"},
			Data: map[string][]byte{"config": []byte(kubeconfigOf(
				fmt.Sprintf("server: %q, certificate-authority-data: %s", access.Host, base64.StdEncoding.EncodeToString(access.CAData)),
				"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: IfAvailable, command: "+program+"}"))},
		}).Build()
		f := newFleet(t, func(o *Options) {
			o.GetSecret, o.Source = nil, inAdmin
			o.AllowExec = func(ccl *clusterv1.Cluster, e *clientcmdapi.ExecConfig) bool {
				return tc.allowed && ccl.Name == "one" && e.Command == program
			}
			o.completeKubeconfigs(secrets)
		})
		f.ensure(t.Context(), provisionedCluster("one"))
		f.becomes(nameOf("one"), tc.state, tc.reason)
		if ran() != tc.allowed {
			t.Errorf("that the program ran is %t, allowed %t", ran(), tc.allowed)
		}
	}
}

// A GetSecret of others has no way around that.
func TestProgramsOfGetSecret(t *testing.T) {
	t.Parallel()
	access := newServer(t, "a").access("")
	access.ExecProvider = &clientcmdapi.ExecConfig{Command: "false", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
	f := newFleet(t, nil)
	f.becomes(f.add("one", access), Pending, kubeconfig.ExecReason)
}

// Two providers in one process have a name and a registry each.
func TestTwoProvidersInOneProcess(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	provider := func(registerer prometheus.Registerer) error {
		opts := Options{Metrics: registerer}
		if err := opts.complete(fake.NewClientBuilder().Build()); err != nil {
			return err
		}
		_, err := newProvider(nil, logr.Discard(), opts)
		return err
	}
	of := func(name string) prometheus.Registerer {
		return prometheus.WrapRegistererWith(prometheus.Labels{"provider": name}, registry)
	}
	if err := errors.Join(provider(of("a")), provider(of("b"))); err != nil {
		t.Fatal(err)
	}
	if err := provider(of("a")); err == nil || !strings.Contains(err.Error(), "prometheus.WrapRegistererWith") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	found, err := registry.Gather()
	if err != nil || len(found) == 0 {
		t.Errorf("got %d metrics, %v", len(found), err)
	}
}
