package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-base/featuregate"

	"github.com/archelon-io/archelon/feature"
	"github.com/archelon-io/archelon/internal/uninstall"
)

// Where no Pod of the hook can run, people run what the notes of the release say. It is what the Job would have run.
func TestNotesHaveTheCommandOfTheJob(t *testing.T) {
	on := func(names ...featuregate.Feature) values {
		set := values{}
		for _, name := range names {
			set[string(name)] = values{"enabled": true}
		}
		return values{"features": set}
	}
	const own = "--instance=archelon --instance-namespace=archelon-system --leader-elect-namespace=archelon-system --deployment=archelon"
	usual := release{"archelon", "archelon-system"}
	notes := chartWithNotes(t)
	for name, test := range map[string]struct {
		release release
		set     values
		want    string
	}{
		"Default": {usual, values{}, own},
		"Isolated": {usual, values{"namespaces": []string{"a", "b"}, "excludedNamespaces": []string{"b"}},
			own + " --namespace=a --namespace=b --excluded-namespace=b"},
		"Central": {usual, values{"excludedNamespaces": []string{"a", "123"}, "watchFilter": "Blue_1.x"},
			own + " --excluded-namespace=a --excluded-namespace=123 --watch-filter=Blue_1.x"},
		"HostClaims": {usual, on(feature.HostClaim),
			own + " --host-claims"},
		"RemoteRancher": {
			usual,
			on(feature.ManagementV3Cluster, feature.RemoteRancher).
				merged(values{"rancher": values{"kubeconfigSecret": "to.rancher", "namespace": "there"}}),
			own + " --rancher-kubeconfig=archelon-system/to.rancher --rancher-namespace=there",
		},
		"DeletesRecords": {usual, values{"uninstall": values{"deleteRancherClusters": true, "timeoutSeconds": 300}},
			own + " --delete-rancher-clusters"},
		"OtherNames": {release{"true", "1e3"}, values{"leaderElection": values{"namespace": "0x10"}, "instance": "007"},
			"--instance=007 --instance-namespace=1e3 --leader-elect-namespace=0x10 --deployment=true-archelon"},
		"LongNames": {release{"a-release-with-a-name-as-long-as-helm-takes-it-abcdef", "n"}, values{"leaderElection": values{"namespace": "c"}},
			"--instance=n-a-release-with-a-name-as-long-a-03561c5e --instance-namespace=n --leader-elect-namespace=c" +
				" --deployment=a-release-with-a-name-as-long-a-03561c5e"},
		"Everything": {usual, everything().merged(values{"fullnameOverride": "a-name-with-as-many-letters-as-are-taken"}),
			"--instance=archelon1 --instance-namespace=archelon-system --leader-elect-namespace=coordination" +
				" --deployment=a-name-with-as-many-letters-as-are-taken --delete-rancher-clusters"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := templateOf(t.Context(), notes, test.release, test.set)
			if err != nil {
				t.Fatal(err)
			}
			checkNotes(t, decode(t, raw), test.release, strings.Fields(test.want+" --yes"))
		})
	}
}

// checkNotes wants the commands of the notes to be for this release and its Job, and what is run from
// outside to have these flags.
func checkNotes(t *testing.T, rendered []*unstructured.Unstructured, r release, flags []string) {
	t.Helper()
	said := wordsOfCommands(t, notesOf(t, rendered))
	job := jobOf(t, rendered)

	args := said["archelon"]
	if diff := cmp.Diff(append([]string{uninstall.Name, "--kubeconfig=PATH"}, flags...), args); diff != "" {
		t.Fatalf("the notes have another command (-want +got):\n%s", diff)
	}
	if err := uninstall.Command().ParseFlags(args[1:]); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	checkUninstallerFlags(t, args[2:])
	if diff := cmp.Diff(argsFromOutside(job.Spec.Template.Spec.Containers[0].Args, r.namespace), args[2:]); diff != "" {
		t.Errorf("the Job has other arguments than the notes (-job +notes):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"uninstall", r.name, "--namespace", r.namespace, "--no-hooks"}, said["helm"]); diff != "" {
		t.Errorf("helm (-want +got):\n%s", diff)
	}
	logs := []string{"logs", "--namespace", job.Namespace, "--selector", "batch.kubernetes.io/job-name=" + job.Name, "--tail=20"}
	if diff := cmp.Diff(logs, said["kubectl logs"]); diff != "" {
		t.Errorf("kubectl (-want +got):\n%s", diff)
	}
}

// argsFromOutside are those of the Job but for what its Pod alone knows, and for its time limit, which is there because
// Helm has one.
func argsFromOutside(args []string, namespace string) []string {
	var all []string
	for _, arg := range args[1:] {
		if !strings.HasPrefix(arg, "--timeout=") {
			all = append(all, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", namespace))
		}
	}
	return all
}

// chartWithNotes returns a copy of the chart that renders its notes into an object as well:
// "helm template" leaves them out.
func chartWithNotes(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	const object = `{{ $notes := include (print .Template.BasePath "/NOTES.txt") . -}}
{{ dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" (dict "name" "notes-of-the-release") "data" (dict "notes" $notes) | toJson }}`
	if err := os.WriteFile(filepath.Join(dir, "templates", "notes.yaml"), []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// notesOf returns the part of the notes that is about uninstallations that fail.
func notesOf(t *testing.T, rendered []*unstructured.Unstructured) string {
	t.Helper()
	for _, object := range rendered {
		if object.GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("ConfigMap") || object.GetName() != "notes-of-the-release" {
			continue
		}
		notes, _, err := unstructured.NestedString(object.Object, "data", "notes")
		if err != nil {
			t.Fatal(err)
		}
		_, about, found := strings.Cut(notes, `If "helm uninstall" fails`)
		if !found {
			t.Fatalf("the notes say nothing about uninstallations that fail:\n%s", notes)
		}
		return about
	}
	t.Fatal("no notes are rendered")
	return ""
}

// wordsOfCommands has a shell read the commands in the notes, and returns the arguments of each by the program, those
// of kubectl by its first one too.
func wordsOfCommands(t *testing.T, notes string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for line := range strings.Lines(notes) {
		command, indented := strings.CutPrefix(line, "  ")
		if !indented {
			continue
		}
		program, _, _ := strings.Cut(command, " ")
		out, err := run(t.Context(), ".", nil, "/bin/sh", "-euc", program+`() { printf '%s\n' "$@"; }; `+command)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if program == "kubectl" {
			program += " " + words[0]
		}
		all[program] = words
	}
	return all
}
