package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// documentedInstance is the name of the instance in the files of config/isolated.
const documentedInstance = "archelon1"

// Instance is one of several managers side by side. It has a namespace and a ServiceAccount of its own.
type Instance struct {
	// Name is that of --instance.
	Name string
	// Isolated gives it the rights of config/isolated instead of those of config/rbac: Grant says in which namespaces.
	Isolated bool
}

// Namespace returns the namespace that it runs in.
func (i Instance) Namespace() string { return i.Name + "-system" }

// ID returns how clusters name it. The Leases of all instances are in one namespace.
func (i Instance) ID() string { return SystemNamespace + "/" + i.Name }

// User returns its name in the audit log.
func (i Instance) User() string {
	return "system:serviceaccount:" + i.Namespace() + ":" + ServiceAccount
}

// Install creates what an instance needs to run, in the way that docs/operations/sharding.md describes. It takes away
// what the instance of this name has had, of the other kind for example.
func (s *Stage) Install(ctx context.Context, instance Instance) error {
	if err := s.Uninstall(ctx, instance); err != nil {
		return err
	}
	for _, file := range []string{"cluster_role.yaml", "namespace_role.yaml", "instance.yaml"} {
		if err := s.applyFor(ctx, instance, file, ""); err != nil {
			return err
		}
	}
	if instance.Isolated {
		return nil
	}
	isolated := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: instance.Name + "-isolated"}}
	central := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: instance.Name + "-manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "archelon-manager"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: instance.Namespace(), Name: ServiceAccount}},
	}
	return errors.Join(s.Client.Delete(ctx, isolated), s.Client.Create(ctx, central))
}

// Uninstall takes all rights of the instance away.
func (s *Stage) Uninstall(ctx context.Context, instance Instance) error {
	var errs []error
	for _, suffix := range []string{"-isolated", "-manager"} {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: instance.Name + suffix}}
		errs = append(errs, client.IgnoreNotFound(s.Client.Delete(ctx, binding)))
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := s.Client.List(ctx, bindings); err != nil {
		return err
	}
	for i := range bindings.Items {
		binding := &bindings.Items[i]
		if len(binding.Subjects) != 1 || binding.Subjects[0].Namespace != instance.Namespace() {
			continue
		}
		held := binding.DeepCopy()
		binding.Finalizers = nil
		errs = append(errs,
			client.IgnoreNotFound(s.Client.Patch(ctx, binding, client.MergeFrom(held))),
			client.IgnoreNotFound(s.Client.Delete(ctx, binding)))
	}
	return errors.Join(errs...)
}

// Grant gives namespaces to an isolated instance.
func (s *Stage) Grant(ctx context.Context, instance Instance, namespaces ...string) error {
	for _, namespace := range namespaces {
		if err := s.applyFor(ctx, instance, "namespace_role_binding.yaml", namespace); err != nil {
			return err
		}
	}
	return nil
}

// applyFor applies a file of config/isolated for the given instance, objects without a namespace in the given one.
func (s *Stage) applyFor(ctx context.Context, instance Instance, file, namespace string) error {
	raw, err := os.ReadFile(filepath.Join(Root(), "config", "isolated", file))
	if err != nil {
		return err
	}
	objects, err := parse([]byte(strings.ReplaceAll(string(raw), documentedInstance, instance.Name)))
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	for i := range objects {
		if namespace != "" {
			objects[i].SetNamespace(namespace)
		}
	}
	return s.apply(ctx, objects)
}

// StartInstance starts a manager as an instance, which has to be installed, with its name and its Lease.
func (s *Stage) StartInstance(ctx context.Context, instance Instance, binary string, out io.Writer, args ...string) (*Manager, error) {
	config, err := s.Management.ServiceAccountConfig(ctx, instance.Namespace(), ServiceAccount)
	if err != nil {
		return nil, err
	}
	return s.startManager(config, binary, out, append([]string{
		"--instance=" + instance.Name, "--leader-elect", "--leader-elect-namespace=" + SystemNamespace,
	}, args...)...)
}
