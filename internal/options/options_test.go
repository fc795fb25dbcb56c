package options

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/archelon-io/archelon/feature"
)

// parse returns the options that a command line makes.
func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	opts, err := New()
	if err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	opts.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return opts
}

func TestDefaultsAreValid(t *testing.T) {
	opts := parse(t)
	if notes := opts.Complete(); len(notes) > 0 {
		t.Errorf("the defaults were changed: %v", notes)
	}
	if err := opts.Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	if opts.Concurrency != 10 || opts.ManifestTimeout != 30*time.Second || opts.ManifestMaxBytes != 4<<20 {
		t.Errorf("got %+v, want a concurrency of 10, and 30 s and 4 MiB for the manifest", opts)
	}
	// Document 004: without the gate, the provisioning.cattle.io strategy is used.
	if opts.Gates.Enabled(feature.ManagementV3Cluster) {
		t.Error("managementv3-cluster must be off by default")
	}
	if opts.InsecureSkipTLSVerify {
		t.Error("certificates must be verified by default")
	}
}

func TestGate(t *testing.T) {
	if !parse(t, "--feature-gates=managementv3-cluster=true").Gates.Enabled(feature.ManagementV3Cluster) {
		t.Error("the gate was not switched on")
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"Concurrency":    {reason: "no worker would do anything", args: []string{"--concurrency=0"}, want: "--concurrency must be greater than zero"},
		"Jobs":           {reason: "no workload cluster would be reached", args: []string{"--workload-concurrency=-1"}, want: "--workload-concurrency"},
		"SyncPeriod":     {reason: "a resync without pause", args: []string{"--sync-period=0s"}, want: "--sync-period"},
		"Timeout":        {reason: "zero would mean no limit", args: []string{"--manifest-timeout=0s"}, want: "--manifest-timeout"},
		"Size":           {reason: "zero would refuse all", args: []string{"--manifest-max-bytes=0"}, want: "--manifest-max-bytes"},
		"WorkloadTime":   {reason: "zero would mean no limit", args: []string{"--workload-timeout=0s"}, want: "--workload-timeout"},
		"Grace":          {reason: "time does not go back", args: []string{"--agent-disconnect-grace=-1s"}, want: "--agent-disconnect-grace"},
		"NoGrace":        {reason: "a disconnection is told at once", args: []string{"--agent-disconnect-grace=0s"}},
		"QPS":            {reason: "client-go would read zero as its own default", args: []string{"--kube-api-qps=0"}, want: "--kube-api-qps"},
		"Burst":          {reason: "no request would ever pass", args: []string{"--kube-api-burst=0"}, want: "--kube-api-burst"},
		"Lease":          {reason: "two leaders would be possible", args: []string{"--leader-elect", "--leader-elect-lease-duration=5s"}, want: "must be longer than --leader-elect-renew-deadline"},
		"LeaseSeconds":   {reason: "a Lease has whole seconds", args: []string{"--leader-elect", "--leader-elect-lease-duration=10900ms", "--leader-elect-renew-deadline=10500ms"}, want: "in whole seconds"},
		"Retry":          {reason: "tries jitter", args: []string{"--leader-elect", "--leader-elect-retry-period=9s"}, want: "1.2 times --leader-elect-retry-period"},
		"Unelected":      {reason: "it has a Lease as well", args: []string{"--leader-elect=false", "--leader-elect-lease-duration=5s"}, want: "must be longer than --leader-elect-renew-deadline"},
		"Unlimited":      {reason: "a negative QPS lifts the limit", args: []string{"--kube-api-qps=-1"}},
		"Filter":         {reason: "it is compared with a label value", args: []string{"--watch-filter=a,b"}, want: "--watch-filter"},
		"Namespace":      {reason: "it can never exist", args: []string{"--namespace=watch1,Watch_2"}, want: `--namespace: "Watch_2" cannot be the name of a namespace`},
		"EmptyNamespace": {reason: "an empty list is not all namespaces", args: []string{"--namespace="}, want: "--namespace is empty"},
		"EmptyExcluded":  {reason: "nor is it none", args: []string{"--excluded-namespace="}, want: "--excluded-namespace is empty"},
		"Excluded":       {reason: "it can never exist", args: []string{"--excluded-namespace=*"}, want: `--excluded-namespace: "*"`},
		"NoTurtles":      {reason: "an empty list would stand for all namespaces", args: []string{"--turtles-namespace="}, want: "--turtles-namespace must name a namespace"},
		"Turtles":        {reason: "it can never exist", args: []string{"--turtles-namespace=Turtles"}, want: `--turtles-namespace "Turtles" must be the name of a namespace`},
		"Workspace":      {reason: "it can never exist", args: []string{"--fleet-workspace=blue,*"}, want: `--fleet-workspace "*" must be the name of a namespace`},
		"Label":          {reason: "it matches no label", args: []string{"--unpropagated-label=a/b/c,*,x.io/*"}, want: `--unpropagated-label "a/b/c" must be the key of a label, such as example.com/owner, or a pattern of keys, such as example.com/*`},
		"Annotation":     {reason: "anybody could write it", args: []string{"--propagated-annotation=a.io/*,*.io/a"}, want: `--propagated-annotation: "*.io/a" must name its domain, without a *`},
		"PodSecurity":    {reason: "Kubernetes has no such level", args: []string{"--agent-pod-security=none"}, want: `--agent-pod-security "none" must be one of privileged, baseline, restricted`},
		"AgentEnv":       {reason: "it has no name", args: []string{"--agent-default-env=s3cret"}, want: `--agent-default-env, --agent-default-tolerations: an environment variable must be NAME=VALUE`},
		"AgentTaints":    {reason: "it is no list", args: []string{"--agent-default-tolerations={}"}, want: `they must be a list of tolerations in YAML or JSON`},
		"AgentSetting":   {reason: "Rancher has no such field", args: []string{"--agent-setting=resources,image"}, want: `--agent-setting "image" must be one of tolerations, node-affinity, resources, priority-class, pod-disruption-budget, private-registry, registry-pull-secrets`},
		"Selector":       {reason: "it is no selector", args: []string{"--import-selector=a in ("}, want: `--import-selector "a in (": it cannot be read`},
		"AllSelected":    {reason: "a set without values selects everything", args: []string{"--import-selector=team notin ()"}, want: `--import-selector "team notin ()": "team notin ()" has no value`},
		"AllNamespaces":  {reason: "a set without values selects everything", args: []string{"--leader-elect", "--namespace-selector=team!="}, want: `--namespace-selector "team!=": "team!=" has no value`},
		"BlankNamespace": {reason: "it is no selector", args: []string{"--leader-elect", "--namespace-selector= "}, want: `--namespace-selector " ": it selects everything`},
		"SelectorAll":    {reason: "everything is asked for by another flag", args: []string{"--import-selector=,"}, want: "--import-selector"},
		"Class":          {reason: "it can never exist", args: []string{"--import-class=a/b/c"}, want: `--import-class "a/b/c" must be the name of a ClusterClass`},
		"NoClass":        {reason: "none is not all", args: []string{"--import-class="}, want: "--import-class is empty"},
		"ImportIn":       {reason: "it can never exist", args: []string{"--import-namespace=A"}, want: `--import-namespace "A" must be the name of a namespace`},
		"ImportNowhere":  {reason: "none is not all", args: []string{"--import-namespace="}, want: "--import-namespace is empty"},
		"ImportOutside":  {reason: "nothing would be imported", args: []string{"--namespace=a", "--import-namespace=b"}, want: `--import-namespace "b" is none of the namespaces of this instance`},
		"ImportAll":      {reason: "all of its own", args: []string{"--namespace=a", "--import-namespace=*"}},
		"NoImport":       {reason: "HostClaims need none", args: []string{"--import=false", "--feature-gates=host-claim=true,host-claim-machines=true"}},
		"NothingToDo":    {reason: "no controller would run", args: []string{"--import=false"}, want: "switch gate host-claim on, or leave the flag out"},
		"ServesImports":  {reason: "nothing would be imported", args: []string{"--import=false", "--feature-gates=host-claim=true,fleet=true"}, want: "gate fleet needs the import: switch it off, or leave out --import=false"},
		"NoWorkspace":    {reason: "nobody may choose", args: []string{"--fleet-workspace="}},
		"NothingLeft":    {reason: "nothing would ever be done", args: []string{"--namespace=a,b", "--excluded-namespace=b", "--excluded-namespace=a"}, want: "nothing is left"},
		"Instance":       {reason: "the name of a Lease and of a label", args: []string{"--instance=A B"}, want: "--instance"},
		"Secrets":        {reason: "no name stands for all namespaces", args: []string{"--oci-principal-secret-namespace=*"}, want: "--oci-principal-secret-namespace"},
		"Trusted":        {reason: "the same", args: []string{"--oci-trusted-identity-namespace=a,B"}, want: "--oci-trusted-identity-namespace"},
		"OCIHost":        {reason: "it is no URL", args: []string{"--oci-verify-host=https://identity.example.com"}, want: "--oci-verify-host"},
		"OCIHostPath":    {reason: "nor with a path", args: []string{"--oci-verify-host=identity.example.com/x"}, want: "--oci-verify-host"},
		"OCITimeout":     {reason: "nobody waits for ever", args: []string{"--oci-verify-timeout=0s"}, want: "--oci-verify-timeout"},
		"SeveralAtOnce":  {reason: "every problem is told, not the first", args: []string{"--concurrency=0", "--sync-period=0s"}, want: "--sync-period"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := parse(t, tc.args...).Validate()
			if tc.want == "" {
				if err != nil {
					t.Errorf("%s: got %v", tc.reason, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

func TestLogLevelNeverShowsBodies(t *testing.T) {
	opts := parse(t, "-v=10", "--vmodule=request=9")
	notes := opts.Complete()
	if opts.Logs.Verbosity > 4 || len(opts.Logs.VModule) > 0 {
		t.Errorf("got level %d and vmodule %v; from 8 on client-go logs bodies, which hold tokens", opts.Logs.Verbosity, opts.Logs.VModule)
	}
	if len(notes) != 2 {
		t.Errorf("got notes %q, want one for each change", notes)
	}
}

func TestLogFormats(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		opts := parse(t, "--logging-format="+format)
		if err := logsapi.Validate(opts.Logs, nil, nil); len(err) > 0 {
			t.Errorf("%s: %v", format, err)
		}
	}
}

func TestScope(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		want  string
		notes int
	}{
		"None":        {want: "*"},
		"Repeated":    {args: []string{"--namespace", "b", "--namespace", "a"}, want: "+a,b"},
		"Separated":   {args: []string{"--namespace=b, a,b"}, want: "+a,b"},
		"Excluded":    {args: []string{"--excluded-namespace=b", "--excluded-namespace=a"}, want: "-a,b"},
		"ExcludedWin": {args: []string{"--namespace=a,b", "--excluded-namespace=b"}, want: "+a", notes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			opts := parse(t, tc.args...)
			if notes := opts.Complete(); len(notes) != tc.notes {
				t.Errorf("got notes %q, want %d", notes, tc.notes)
			}
			scope, err := opts.Scope()
			if err != nil || scope.Encode() != tc.want {
				t.Errorf("got %s, %v, want %s", scope.Encode(), err, tc.want)
			}
		})
	}
}

// A list without the gate, and the gate without lists, are slips.
func TestMembersAreAllowedByName(t *testing.T) {
	role, principal, on := "--member-role=tenant-dev", "--member-principal=ldap_user://cn=a,ou=b", "--feature-gates=rancher-cluster-members=true"
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"Off":          {nil, ""},
		"On":           {[]string{on, role, principal}, ""},
		"NoGate":       {[]string{role}, "are for gate rancher-cluster-members"},
		"NoRoles":      {[]string{on, principal}, "at least one role template"},
		"NoPrincipals": {[]string{on, role}, "at least one role template"},
		"NoProvider":   {[]string{on, role, "--member-principal=admins"}, `"admins" must be what principals of a provider begin with`},
		"Elsewhere": {
			[]string{on + ",remote-rancher=true,managementv3-cluster=true", role, principal, "--rancher-kubeconfig=a/b"}, "cannot be used with gate remote-rancher yet",
		},
		"ByLabels": {[]string{on, role, principal, "--namespace-selector=a=b"}, "cannot be used with gate rancher-cluster-members"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := parse(t, tc.args...)
			if err := opts.Validate(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if name == "On" && (len(opts.Members.Principals) != 1 || opts.Members.Principals[0] != "ldap_user://cn=a,ou=b") {
				t.Errorf("a principal with a comma became %q", opts.Members.Principals)
			}
		})
	}
}

// Nobody would give hosts to the claims of Machines.
func TestMachinesNeedClaims(t *testing.T) {
	for gates, want := range map[string]bool{"host-claim=true,host-claim-machines=true": false, "host-claim-machines=true": true} {
		err := parse(t, "--feature-gates="+gates).Validate()
		if refused := err != nil && strings.Contains(err.Error(), "needs gate host-claim,"); refused != want {
			t.Errorf("%s: got %v, refused should be %t", gates, err, want)
		}
	}
}
