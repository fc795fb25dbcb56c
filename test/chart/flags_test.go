package chart_test

import (
	"testing"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/archelon-io/archelon/internal/options"
	"github.com/archelon-io/archelon/internal/uninstall"
)

// checkFlags has the two programs read what the chart passes to them.
func checkFlags(t *testing.T, rendered []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range rendered {
		switch object.GetKind() {
		case "Deployment":
			manager := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, manager); err != nil {
				t.Fatal(err)
			}
			checkManagerFlags(t, manager.Spec.Template.Spec.Containers[0].Args)
		case "Job":
			job := &batchv1.Job{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, job); err != nil {
				t.Fatal(err)
			}
			args := job.Spec.Template.Spec.Containers[0].Args
			if args[0] != uninstall.Name {
				t.Errorf("the Job runs %q", args[0])
			}
			checkUninstallerFlags(t, args[1:])
		}
	}
}

func checkUninstallerFlags(t *testing.T, args []string) {
	t.Helper()
	opts := uninstall.NewOptions()
	flags := pflag.NewFlagSet(uninstall.Name, pflag.ContinueOnError)
	opts.AddFlags(flags)
	parse(t, flags, args)
	if err := opts.Validate(); err != nil {
		t.Errorf("the uninstaller refuses %q: %v", args, err)
	}
}

func checkManagerFlags(t *testing.T, args []string) {
	t.Helper()
	opts, err := options.New()
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("archelon", pflag.ContinueOnError)
	opts.AddFlags(flags)
	parse(t, flags, args)
	opts.Complete()
	if err := opts.Validate(); err != nil {
		t.Errorf("the manager refuses %q: %v", args, err)
	}
}

func parse(t *testing.T, flags *pflag.FlagSet, args []string) {
	t.Helper()
	if err := flags.Parse(args); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	if flags.NArg() > 0 {
		t.Errorf("%q: %q are no flags", args, flags.Args())
	}
}
