package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// played is a workload cluster. Fields are the JSON of what it has.
type played struct {
	deployment, set, pod, nodes string
	// log and previous are those of the agent's container.
	log, previous string
	// forbidden are the resources that may not be read.
	forbidden string
	warned    bool
}

const (
	ofDeployment = `"ownerReferences":[{"uid":"deployment-uid"}]`
	ofSet        = `"ownerReferences":[{"uid":"set-uid"}]`
	readyNode    = `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
	unreadyNode  = `{"status":{"conditions":[{"type":"Ready","status":"False","message":"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"}]}}`
)

func (p played) serve(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	if resource != "log" && strings.Contains(r.URL.Path, "/deployments/") {
		resource = "deployment"
	}
	list := func(kind, items string) string {
		return `{"apiVersion":"` + map[bool]string{true: "apps/v1", false: "v1"}[kind == "ReplicaSet"] + `","kind":"` + kind + `List","metadata":{},"items":[` + items + `]}`
	}
	switch {
	case strings.Contains(p.forbidden, resource):
		answer(403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods is forbidden: User \"x\" cannot list resource"}`)(w, r)
	case resource == "deployment":
		answer(200, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"uid":"deployment-uid"},"spec":{"template":{"spec":{"containers":[`+
			`{"env":[{"name":"CATTLE_SERVER","value":"https://rancher.example.com"}]}]}}`+p.deployment+`}`)(w, r)
	case resource == "replicasets":
		answer(200, list("ReplicaSet", p.set))(w, r)
	case resource == "pods":
		answer(200, list("Pod", p.pod))(w, r)
	case resource == "nodes":
		answer(200, list("Node", p.nodes))(w, r)
	case resource == "log" && r.URL.Query().Get("previous") == "true":
		_, _ = io.WriteString(w, p.previous)
	case resource == "log":
		_, _ = io.WriteString(w, p.log)
	default:
		answer(404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)(w, r)
	}
}

// quoted returns a text as JSON.
func quoted(text string) string {
	raw, _ := json.Marshal(text) //nolint:errchkjson // a string
	return string(raw)
}

func set(failure string) string {
	conditions := ""
	if failure != "" {
		conditions = `{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":` + quoted(failure) + `}`
	}
	return `{"metadata":{"uid":"set-uid",` + ofDeployment + `},"status":{"conditions":[` + conditions + `]}}`
}

func pending(message string) string {
	return `{"metadata":{"name":"agent-1",` + ofSet + `},"spec":{},"status":{"phase":"Pending","conditions":[` +
		`{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":` + quoted(message) + `}]}}`
}

func onNode(status string) string {
	return `{"metadata":{"name":"agent-1",` + ofSet + `},"spec":{"nodeName":"node-1"},"status":{"conditions":[{"type":"PodScheduled","status":"True"}],` +
		`"containerStatuses":[{"name":"cluster-register",` + status + `}]}}`
}

func waitsFor(reason, message string) string {
	return onNode(`"state":{"waiting":{"reason":` + quoted(reason) + `,"message":` + quoted(message) + `}}`)
}

// The messages are those of kube-scheduler, the kubelet, the controller of ReplicaSets, and Rancher's agent.
func TestDiagnose(t *testing.T) {
	const (
		refusedBy = `pods "cattle-cluster-agent-6b7c9f5d4-tn8wq" is forbidden: `
		crashed   = `"restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 40s restarting failed container"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}`
		running   = `"restartCount":0,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}`
		restarted = `"restartCount":1,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}`
	)
	for name, tc := range map[string]struct {
		played
		want Cause
	}{
		"ScaledDown":    {played{deployment: `,"replicas":0}`}, ScaledDown},
		"Paused":        {played{deployment: `,"paused":true}`}, ScaledDown},
		"NoReplicaSet":  {played{}, NoController},
		"NoPods":        {played{set: set("")}, NoController},
		"WarnedNoPods":  {played{set: set(""), warned: true}, PodSecurity},
		"WarnedRunning": {played{set: set(""), pod: onNode(running), warned: true}, Running},
		"OfAnother":     {played{set: strings.ReplaceAll(set(refusedBy+"exceeded quota: a"), "deployment-uid", "another-uid")}, NoController},

		"Quota":         {played{set: set(refusedBy + "exceeded quota: compute, requested: pods=1, used: pods=10, limited: pods=10")}, Quota},
		"QuotaDemands":  {played{set: set(refusedBy + "failed quota: compute: must specify limits.cpu for: cluster-register; limits.memory for: cluster-register")}, Quota},
		"QuotaUnknown":  {played{set: set(refusedBy + "status unknown for quota: compute, resources: pods")}, Quota},
		"PodSecurity":   {played{set: set(refusedBy + `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "cluster-register" must set securityContext.allowPrivilegeEscalation=false)`)}, PodSecurity},
		"Webhook":       {played{set: set(`admission webhook "validation.gatekeeper.sh" denied the request: [no-root] violates PodSecurityStandards`)}, Refused},
		"WebhookDead":   {played{set: set(`Internal error occurred: failed calling webhook "validate.kyverno.svc-fail": failed to call webhook: Post "https://kyverno-svc.kyverno.svc:443/validate/fail?timeout=10s": no endpoints available for service "kyverno-svc"`)}, WebhookUnavailable},
		"Policy":        {played{set: set(refusedBy + "ValidatingAdmissionPolicy 'images' with binding 'images' denied request: failed expression")}, Refused},
		"PriorityClass": {played{set: set(refusedBy + "no PriorityClass with name cattle-cluster-agent-priority-class was found")}, Refused},
		"OfDeployment":  {played{deployment: `},"status":{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":` + quoted(refusedBy+"exceeded quota: a") + `}]}`}, Quota},
		"NoSetAllowed":  {played{deployment: `},"status":{"conditions":[{"type":"Progressing","status":"False","reason":"ReplicaSetCreateError","message":"admission webhook \"a\" denied the request"}]}`}, Refused},
		"FailureIsOver": {played{set: strings.ReplaceAll(set("exceeded quota: a"), `"True"`, `"False"`)}, NoController},
		"NewestSet": {played{
			set: strings.ReplaceAll(set(refusedBy+"exceeded quota: a"), `"set-uid",`, `"set-uid","annotations":{"deployment.kubernetes.io/revision":"9"},`) + "," +
				strings.ReplaceAll(set(""), `"set-uid",`, `"newest-uid","annotations":{"deployment.kubernetes.io/revision":"10"},`),
			pod: onNode(running) + "," + strings.ReplaceAll(pending("0/1 nodes are available: 1 Insufficient cpu."), "set-uid", "newest-uid"), nodes: readyNode,
		}, InsufficientResources},

		"NotLookedAt":    {played{set: set(""), pod: `{"metadata":{"name":"a"},"spec":{}}`, nodes: readyNode}, NoScheduler},
		"NoNodesAtAll":   {played{set: set(""), pod: `{"metadata":{"name":"a"},"spec":{}}`}, NoNodes},
		"NoNodes":        {played{set: set(""), pod: pending("no nodes available to schedule pods"), forbidden: "nodes"}, NoNodes},
		"NotReady":       {played{set: set(""), pod: pending("0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."), forbidden: "nodes"}, NodesNotReady},
		"NotReadyNode":   {played{set: set(""), pod: pending("0/1 nodes are available: 1 node(s) had untolerated taint(s)."), nodes: unreadyNode}, NodesNotReady},
		"NotInitialized": {played{set: set(""), pod: pending("0/1 nodes are available: 1 node(s) had untolerated taint(s)."), nodes: strings.Replace(readyNode, `{"status"`, `{"spec":{"taints":[{"key":"node.cloudprovider.kubernetes.io/uninitialized"}]},"status"`, 1)}, NodesNotReady},
		"Taints":         {played{set: set(""), pod: pending("0/3 nodes are available: 3 node(s) had untolerated taint {dedicated: gpu}. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."), nodes: readyNode}, Taints},
		"TaintsNew":      {played{set: set(""), pod: pending("0/3 nodes are available: 3 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/3 nodes are available."), nodes: readyNode}, Taints},
		"TaintsOld":      {played{set: set(""), pod: pending("0/1 nodes are available: 1 node(s) had taint {dedicated: gpu}, that the pod didn't tolerate."), nodes: readyNode}, Taints},
		"Full":           {played{set: set(""), pod: pending("0/4 nodes are available: 1 node(s) had untolerated taint {dedicated: gpu}, 3 Insufficient memory."), nodes: readyNode}, InsufficientResources},
		"TooMany":        {played{set: set(""), pod: pending("0/1 nodes are available: 1 Too many pods."), nodes: readyNode}, InsufficientResources},
		"DiskPressure":   {played{set: set(""), pod: pending("0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }."), nodes: readyNode}, InsufficientResources},
		"Cordoned":       {played{set: set(""), pod: pending("0/1 nodes are available: 1 node(s) were unschedulable."), nodes: readyNode}, NoFittingNode},
		"Affinity":       {played{set: set(""), pod: pending("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."), nodes: readyNode}, NoFittingNode},

		"Starting":    {played{set: set(""), pod: waitsFor("ContainerCreating", "")}, Starting},
		"NoKubelet":   {played{set: set(""), pod: `{"metadata":{"name":"a"},"spec":{"nodeName":"node-1"}}`}, Starting},
		"ImagePull":   {played{set: set(""), pod: waitsFor("ErrImagePull", `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/rancher/rancher-agent:v2.15.0": not found`)}, ImagePull},
		"BackOff":     {played{set: set(""), pod: waitsFor("ImagePullBackOff", `Back-off pulling image "rancher/rancher-agent:v2.15.0"`)}, ImagePull},
		"InvalidName": {played{set: set(""), pod: waitsFor("InvalidImageName", "Failed to apply default image tag")}, ImagePull},
		"Sidecar":     {played{set: set(""), pod: strings.Replace(onNode(running), `[{"name":"cluster-register"`, `[{"name":"proxy","state":{"waiting":{"reason":"ErrImagePull"}}},{"name":"cluster-register"`, 1)}, ImagePull},
		"NoSecret":    {played{set: set(""), pod: waitsFor("CreateContainerConfigError", `secret "a" not found`)}, NotStartable},

		"Crashes":       {played{set: set(""), pod: onNode(crashed), log: "panic: runtime error"}, CrashLoop},
		"OutOfMemory":   {played{set: set(""), pod: onNode(strings.Replace(crashed, `"reason":"Error"`, `"reason":"OOMKilled"`, 1))}, OutOfMemory},
		"CrashesOften":  {played{set: set(""), pod: onNode(strings.Replace(restarted, `"restartCount":1`, `"restartCount":7`, 1))}, CrashLoop},
		"Runs":          {played{set: set(""), pod: onNode(running), log: `time="2026-01-01T00:00:00Z" level=info msg="Connecting to wss://rancher.example.com/v3/connect with token starting with abc"`}, Running},
		"LogsForbidden": {played{set: set(""), pod: onNode(crashed), forbidden: "log"}, CrashLoop},

		"Unresolvable":   {played{set: set(""), pod: onNode(crashed), log: "INFO: Using resolv.conf\nERROR: https://rancher.example.com/ping is not accessible (Could not resolve host: rancher.example.com)\n"}, ServerUnresolvable},
		"UnresolvableGo": {played{set: set(""), pod: onNode(running), log: `level=error msg="Failed to connect to proxy. Empty dialer response" error="dial tcp: lookup rancher.example.com on 10.43.0.10:53: no such host"`}, ServerUnresolvable},
		"NoDNS":          {played{set: set(""), pod: onNode(running), log: `level=error msg="Failed to connect to proxy. Empty dialer response" error="dial tcp: lookup rancher.example.com on 10.43.0.10:53: read udp 10.42.0.3:41822->10.43.0.10:53: i/o timeout"`}, ServerUnresolvable},
		"Refuses":        {played{set: set(""), pod: onNode(crashed), log: "ERROR: https://rancher.example.com/ping is not accessible (Failed to connect to rancher.example.com port 443 after 1 ms: Connection refused)"}, ServerUnreachable},
		"TimesOut":       {played{set: set(""), pod: onNode(running), log: `level=error msg="Remotedialer proxy error" error="dial tcp 192.0.2.1:443: i/o timeout" url="wss://rancher.example.com/v3/connect"`}, ServerUnreachable},
		"BadGateway":     {played{set: set(""), pod: onNode(crashed), log: "ERROR: https://rancher.example.com/ping is not accessible (The requested URL returned error: 502)"}, ServerUnreachable},
		"Checksum":       {played{set: set(""), pod: onNode(crashed), log: "ERROR: Configured cacerts checksum (aa) does not match given --ca-checksum (bb)\nERROR: Please check if the correct certificate is configured at https://rancher.example.com/v3/settings/cacerts"}, ServerNotTrusted},
		"Chain":          {played{set: set(""), pod: onNode(crashed), log: `level=fatal msg="Certificate chain is not complete, please check if all needed intermediate certificates are included. error: Get \"https://rancher.example.com\": x509: certificate signed by unknown authority"`}, ServerNotTrusted},
		"Before":         {played{set: set(""), pod: onNode(restarted), log: "INFO: starting", previous: "ERROR: https://rancher.example.com/ping is not accessible (Could not resolve host: rancher.example.com)"}, ServerUnresolvable},
		"Latest":         {played{set: set(""), pod: onNode(running), log: "rancher.example.com: no such host\nwss://rancher.example.com: connection refused\n"}, ServerUnreachable},
		"OfOthers":       {played{set: set(""), pod: onNode(running), log: "fatal: unable to access 'https://git.example.org/': Could not resolve host: git.example.org"}, Running},

		"PodsForbidden":   {played{set: set(""), forbidden: "pods"}, PodsUnreadable},
		"WarnedForbidden": {played{set: set(""), forbidden: "pods", warned: true}, PodSecurityWarned},
		"SetsForbidden":   {played{forbidden: "replicasets"}, ReplicaSetsUnreadable},
		"SetsAreEnough":   {played{set: set(refusedBy + "exceeded quota: a"), forbidden: "pods"}, Quota},
		"PodsAreEnough":   {played{pod: waitsFor("ErrImagePull", ""), forbidden: "replicasets"}, ImagePull},
	} {
		t.Run(name, func(t *testing.T) {
			if got := diagnosed(t, tc.played, nil); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// diagnosed returns the cause that a workload cluster shows, and leaves the requests for it, if they are asked for.
func diagnosed(t *testing.T, p played, requests *[]string) Cause {
	t.Helper()
	if p.deployment == "" {
		p.deployment = "}" // It ends the spec.
	}
	var mu sync.Mutex
	cluster := connect(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if requests != nil {
			*requests = append(*requests, r.URL.String())
		}
		p.serve(w, r)
	})
	state, err := Inspect(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	return Site{Client: cluster}.Diagnose(t.Context(), state, p.warned)
}

// A look is a few requests, each for a bounded answer.
func TestDiagnoseIsBounded(t *testing.T) {
	const (
		look = "/apis/apps/v1/namespaces/cattle-system/deployments/cattle-cluster-agent"
		sets = "/apis/apps/v1/namespaces/cattle-system/replicasets?labelSelector=app%3Dcattle-cluster-agent&limit=20"
		pods = "/api/v1/namespaces/cattle-system/pods?fieldSelector=status.phase%21%3DFailed&labelSelector=app%3Dcattle-cluster-agent&limit=10"
		log  = "/api/v1/namespaces/cattle-system/pods/agent-1/log?container=cluster-register&limitBytes=32768"
	)
	ran := `"restartCount":1,"state":{"running":{}},"lastState":{"terminated":{"reason":"Error"}}`
	for name, tc := range map[string]struct {
		played
		want []string
	}{
		"Refused":     {played{deployment: `},"status":{"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate"}]}`}, []string{look}},
		"ScaledDown":  {played{deployment: `,"replicas":0}`}, []string{look}},
		"Unscheduled": {played{set: set(""), pod: pending("")}, []string{look, sets, pods, "/api/v1/nodes?limit=10"}},
		"Crashes":     {played{set: set(""), pod: onNode(ran)}, []string{look, sets, pods, log + "&tailLines=50", log + "&previous=true&tailLines=50"}},
		"StrangePath": {played{set: set(""), pod: strings.ReplaceAll(onNode(ran), "agent-1", "../../secrets/x?")}, []string{look, sets, pods}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			diagnosed(t, tc.played, &got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A workload cluster is a stranger. Whatever it answers becomes one of our causes, or none.
func TestDiagnoseStrangers(t *testing.T) {
	long := strings.Repeat("s3cret\n\x00\x1b[31m\u202e", 5<<10)
	for name, tc := range map[string]struct {
		played
		want Cause
	}{
		"LongMessage":   {played{set: set(long + "exceeded quota: ")}, Refused},
		"HugeMessage":   {played{set: set(strings.Repeat(long, 40))}, Unknown},
		"LongVerdict":   {played{set: set(""), pod: pending(long), nodes: readyNode}, NoFittingNode},
		"LongReason":    {played{set: set(""), pod: waitsFor(long, long)}, Starting},
		"LongLog":       {played{set: set(""), pod: onNode(`"state":{"running":{}}`), log: strings.Repeat(long, 2)}, Running},
		"ManyPods":      {played{set: set(""), pod: strings.Repeat("{},", 100_000) + "{}"}, NoNodes},
		"ManyStates":    {played{set: set(""), pod: `{"status":{"containerStatuses":[` + strings.Repeat("{},", 100_000) + `{}]}}`}, NoNodes},
		"WrongTypes":    {played{set: `{"status":"s3cret"}`, pod: `{"spec":[1]}`}, Unknown},
		"NoObjects":     {played{set: `1`, pod: `1`}, Unknown},
		"WrongRevision": {played{set: strings.ReplaceAll(set(""), `"set-uid",`, `"set-uid","annotations":{"deployment.kubernetes.io/revision":"s3cret"},`)}, NoController},
	} {
		t.Run(name, func(t *testing.T) {
			if got := diagnosed(t, tc.played, nil); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// What the API server warns of when the agent is installed is told from other warnings, and bounded.
func TestInstallNotesWarnings(t *testing.T) {
	for name, tc := range map[string]struct {
		warnings []string
		want     bool
	}{
		"None":        {},
		"PodSecurity": {[]string{`would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false`}, true},
		"Other":       {[]string{"policy/v1beta1 PodDisruptionBudget is deprecated"}, false},
		"Many":        {append(slicesOf("x", 50), `would violate PodSecurity "restricted:latest"`), false},
	} {
		t.Run(name, func(t *testing.T) {
			var created []string
			cluster := connect(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					body, _ := io.ReadAll(r.Body)
					created = append(created, string(body))
					answer(409, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`)(w, r)
					return
				}
				for _, text := range tc.warnings {
					w.Header().Add("Warning", fmt.Sprintf("299 - %s", quoted(text)))
				}
				answer(200, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":"cattle-system","name":"cattle"}}`)(w, r)
			})
			got, err := Site{Client: cluster, PodSecurity: "privileged"}.Install(t.Context(), account(), false)
			if err != nil || got != tc.want {
				t.Errorf("got %t, %v, want %t", got, err, tc.want)
			}
			if len(created) != 1 || !strings.Contains(created[0], `"labels":{"pod-security.kubernetes.io/enforce":"privileged"}`) {
				t.Errorf("created %q", created)
			}
		})
	}
}

func slicesOf(text string, n int) []string {
	return strings.Split(strings.Repeat(text+",", n-1)+text, ",")
}
