package importer

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func labelled(value string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Labels = map[string]string{importLabel: value} }
}

func named(name string) func(*clusterv1.Cluster) {
	return func(c *clusterv1.Cluster) { c.Name = name }
}

// causes returns the field of each cause of a refusal with its type.
func causes(t *testing.T, err error) map[string]string {
	t.Helper()
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid {
		t.Fatalf("got %v, want the API's error for an invalid object", err)
	}
	found := map[string]string{}
	for _, cause := range status.Status().Details.Causes {
		found[cause.Field] = string(cause.Type)
	}
	return found
}

const importLabel = "cluster-api.cattle.io/rancher-auto-import"

func TestValidateCreate(t *testing.T) {
	long := named(strings.Repeat("a", 64))
	tests := map[string]struct {
		reason  string
		cluster *clusterv1.Cluster
		want    map[string]string
		says    string
	}{
		"Plain":        {reason: "nothing of ours, nothing to say", cluster: testCluster()},
		"Selected":     {reason: "a boolean", cluster: testCluster(labelled("true"))},
		"Excluded":     {reason: "a boolean as Go reads it", cluster: testCluster(labelled("F"))},
		"Label":        {reason: "never silently false", cluster: testCluster(labelled("yes")), want: map[string]string{"metadata.labels[" + importLabel + "]": "InvalidImportLabel"}, says: `"yes": set it to "true" to import`},
		"EmptyLabel":   {reason: "empty is no boolean", cluster: testCluster(labelled("")), want: map[string]string{"metadata.labels[" + importLabel + "]": "InvalidImportLabel"}},
		"Env":          {reason: "a map in YAML", cluster: testCluster(annotated("archelon.io/agent-env", "A: b"))},
		"EnvNoMap":     {reason: "the importer could not use it", cluster: testCluster(annotated("archelon.io/agent-env", "[1]")), want: map[string]string{"metadata.annotations[archelon.io/agent-env]": "InvalidSetting"}, says: "map of strings"},
		"EnvKey":       {reason: "no name of a variable", cluster: testCluster(annotated("archelon.io/agent-env", `{"A=B": ""}`)), want: map[string]string{"metadata.annotations[archelon.io/agent-env]": "InvalidSetting"}},
		"EnvAnchor":    {reason: "anchors expand to gigabytes", cluster: testCluster(annotated("archelon.io/agent-env", "A: &a b\nB: *a")), want: map[string]string{"metadata.annotations[archelon.io/agent-env]": "InvalidSetting"}, says: "anchors"},
		"Workspace":    {reason: "no name of a workspace", cluster: testCluster(annotated("archelon.io/fleet-workspace", "a/b")), want: map[string]string{"metadata.annotations[archelon.io/fleet-workspace]": "InvalidSetting"}},
		"Unset":        {reason: "an empty annotation is as none", cluster: testCluster(annotated("archelon.io/fleet-workspace", ""), annotated("archelon.io/external-fleet", ""), annotated("archelon.io/managed-by", ""))},
		"Fleet":        {reason: "a boolean as Go reads it", cluster: testCluster(annotated("archelon.io/external-fleet", "True"))},
		"FleetOther":   {reason: "it would be taken for false", cluster: testCluster(annotated("archelon.io/external-fleet", "yes")), want: map[string]string{"metadata.annotations[archelon.io/external-fleet]": "InvalidSetting"}},
		"Managed":      {reason: "one of the two", cluster: testCluster(annotated("archelon.io/managed-by", "rancher-turtles"))},
		"ManagedOther": {reason: "neither of the two", cluster: testCluster(annotated("archelon.io/managed-by", "turtles")), want: map[string]string{"metadata.annotations[archelon.io/managed-by]": "InvalidSetting"}, says: `"archelon" or "rancher-turtles"`},
		"LongName":     {reason: "no owner label holds it", cluster: testCluster(long, labelled("true")), want: map[string]string{"metadata.name": "NameTooLong"}, says: "shorter"},
		"LongUnasked":  {reason: "it is not to be imported", cluster: testCluster(long)},
		"LongExcluded": {reason: "it is not to be imported", cluster: testCluster(long, labelled("false"))},
		"LongTurtles":  {reason: "it is not to be imported here", cluster: testCluster(long, labelled("true"), annotated("archelon.io/managed-by", "rancher-turtles"))},
		"Several": {
			reason:  "every problem is told, not the first",
			cluster: testCluster(labelled("yes"), annotated("archelon.io/managed-by", "me"), annotated("archelon.io/fleet-workspace", "A")),
			want: map[string]string{
				"metadata.labels[" + importLabel + "]":              "InvalidImportLabel",
				"metadata.annotations[archelon.io/managed-by]":      "InvalidSetting",
				"metadata.annotations[archelon.io/fleet-workspace]": "InvalidSetting",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			warnings, err := ClusterValidator{}.ValidateCreate(t.Context(), tc.cluster)
			if diff := cmp.Diff(tc.want, causes(t, err), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.reason, diff)
			}
			if len(warnings) > 0 {
				t.Errorf("%s: got warnings %q", tc.reason, warnings)
			}
			if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("got %v, want a text with %q", err, tc.says)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	bad := annotated("archelon.io/managed-by", "me")
	deleted := func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	long := named(strings.Repeat("a", 64))
	tests := map[string]struct {
		reason   string
		old, now *clusterv1.Cluster
		want     map[string]string
		warnings int
	}{
		"Kept":         {reason: "nobody is locked out by what was there before", old: testCluster(bad), now: testCluster(bad, annotated("other", "x")), warnings: 1},
		"Added":        {reason: "a mistake of today", old: testCluster(), now: testCluster(bad), want: map[string]string{"metadata.annotations[archelon.io/managed-by]": "InvalidSetting"}},
		"OtherMistake": {reason: "another value is a mistake of today", old: testCluster(bad), now: testCluster(annotated("archelon.io/managed-by", "you")), want: map[string]string{"metadata.annotations[archelon.io/managed-by]": "InvalidSetting"}},
		"EmptyLabel":   {reason: "an empty label is another than none", old: testCluster(), now: testCluster(labelled("")), want: map[string]string{"metadata.labels[" + importLabel + "]": "InvalidImportLabel"}},
		"Mended":       {reason: "what is right may always be written", old: testCluster(bad), now: testCluster(annotated("archelon.io/managed-by", "archelon"))},
		"Removed":      {reason: "to remove it mends it", old: testCluster(bad), now: testCluster()},
		"OneOfTwo":     {reason: "each key is judged by itself", old: testCluster(bad), now: testCluster(bad, annotated("archelon.io/external-fleet", "maybe")), warnings: 1, want: map[string]string{"metadata.annotations[archelon.io/external-fleet]": "InvalidSetting"}},
		"Deleted":      {reason: "finalizers must come off", old: testCluster(), now: testCluster(bad, deleted)},
		"LongSelected": {reason: "it is asked for now", old: testCluster(long), now: testCluster(long, labelled("true")), want: map[string]string{"metadata.name": "NameTooLong"}},
		"LongBefore":   {reason: "it was asked for before", old: testCluster(long, labelled("true")), now: testCluster(long, labelled("true"), annotated("other", "x")), warnings: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			warnings, err := ClusterValidator{}.ValidateUpdate(t.Context(), tc.old, tc.now)
			if diff := cmp.Diff(tc.want, causes(t, err), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", tc.reason, diff)
			}
			if len(warnings) != tc.warnings {
				t.Errorf("%s: got warnings %q, want %d", tc.reason, warnings, tc.warnings)
			}
		})
	}
}

func TestValidateDelete(t *testing.T) {
	if warnings, err := (ClusterValidator{}).ValidateDelete(t.Context(), testCluster(annotated("archelon.io/managed-by", "me"))); err != nil || warnings != nil {
		t.Errorf("got %v and %q; deletion is always admitted", err, warnings)
	}
}

// The importer and the webhook must agree, or users are refused what would work, or told too late what does not.
func TestWebhookAgreesWithImporter(t *testing.T) {
	for _, value := range []string{"", "true", "false", "True", "1", "yes", "a", "a/b", "archelon", "rancher-turtles", "A: b", "{}", "[1]", "null"} {
		for _, key := range []string{"archelon.io/agent-env", "archelon.io/fleet-workspace", "archelon.io/external-fleet"} {
			cluster := testCluster(labelled("true"), annotated(key, value))
			_, refusal := ClusterValidator{}.ValidateCreate(t.Context(), cluster)
			if _, stall := desiredRecord(cluster, "c-aaaaa"); (stall == nil) != (refusal == nil) {
				t.Errorf("%s=%q: the webhook says %v, the importer %v", key, value, refusal, stall)
			}
		}
	}
}

// FuzzClusterValidator looks for metadata that the webhook stumbles over, and for an environment that it shows.
func FuzzClusterValidator(f *testing.F) {
	f.Add("prod", "yes", true, "HTTPS_PROXY=http://user:hunter2@proxy.example.com", "a/b", "maybe", "me")
	f.Add(strings.Repeat("a", 64), "true", true, `{"A": "b"}`, "", "", "archelon")
	f.Add("prod", "", false, "A: &a [*a]", "\x00", "T", "rancher-turtles")
	f.Fuzz(func(t *testing.T, name, label string, has bool, env, workspace, external, managed string) {
		cluster := testCluster(named(name), annotated("archelon.io/agent-env", env), annotated("archelon.io/fleet-workspace", workspace),
			annotated("archelon.io/external-fleet", external), annotated("archelon.io/managed-by", managed))
		if has {
			labelled(label)(cluster)
		}
		_, created := ClusterValidator{}.ValidateCreate(t.Context(), cluster)
		warnings, updated := ClusterValidator{}.ValidateUpdate(t.Context(), cluster, cluster.DeepCopy())
		if updated != nil {
			t.Errorf("an update that changes nothing is refused: %v", updated)
		}
		if (created == nil) != (len(warnings) == 0) {
			t.Errorf("creation says %v, an update warns of %q", created, warnings)
		}
		_, changed := ClusterValidator{}.ValidateUpdate(t.Context(), testCluster(named(name)), cluster)
		if !maps.Equal(causes(t, created), causes(t, changed)) {
			t.Errorf("creation says %v, an update %v", created, changed)
		}
		expectHidden(t, env)
	})
}

// expectHidden asserts that what is said of an environment depends on nothing in it.
func expectHidden(t *testing.T, env string) {
	t.Helper()
	const prefix = "metadata.annotations[archelon.io/agent-env]: Invalid value: "
	cluster := testCluster(annotated("archelon.io/agent-env", env))
	_, refusal := ClusterValidator{}.ValidateCreate(t.Context(), cluster)
	warnings, _ := ClusterValidator{}.ValidateUpdate(t.Context(), cluster, cluster)
	if refusal == nil {
		return
	}
	said := []string{
		prefix + `it must be a map of strings in YAML or JSON, for example {"HTTPS_PROXY": "http://proxy:3128"}`,
		prefix + "its keys must be names of environment variables",
		prefix + "it uses YAML anchors, which are not supported: write out every value",
	}
	if len(warnings) != 1 || !slices.Contains(said, warnings[0]) || refusal.Error() != `Cluster.cluster.x-k8s.io "prod" is invalid: `+warnings[0] {
		t.Errorf("got the refusal %q and the warnings %q, want one of %q", refusal, warnings, said)
	}
}
