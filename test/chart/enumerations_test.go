package chart_test

import (
	"fmt"
	"testing"
)

// TestEnumerations sets what Kubernetes takes only some words or forms for, wrong and then right:
// most of it is in no other test.
func TestEnumerations(t *testing.T) {
	for name, enumeration := range enumerations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, word := range enumeration.wrong {
				refuse(t, fmt.Sprintf(enumeration.set, word), enumeration.key)
			}
			for _, word := range enumeration.right {
				set := fmt.Sprintf(enumeration.set, word)
				if _, err := template(t.Context(), release{"archelon", "archelon-system"}, parseValues(t, set)); err != nil {
					t.Errorf("%s: %v", set, err)
				}
			}
		})
	}
}

// enumeration is a value with a hole, how messages name the hole, and what fits and does not fit into it.
type enumeration struct {
	set, key     string
	wrong, right []string
}

func enumerations() map[string]enumeration {
	const (
		term      = "{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: %s}]}]}}}}"
		selector  = "{networkPolicy: {metricsFrom: [{podSelector: {matchExpressions: [{key: a, operator: %s}]}}]}}"
		spread    = "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, "
		tolerated = "{tolerations: [{key: a, "
		ports     = "{networkPolicy: {egress: [{ports: [{"
		mount     = "{extraVolumeMounts: [{name: a, mountPath: /a, "
	)
	return map[string]enumeration{
		"NodeSelector":  {term, "/matchExpressions/0/operator", []string{"Equals", "in", "''"}, []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}},
		"LabelSelector": {selector, "/matchExpressions/0/operator", []string{"Equals", "Gt"}, []string{"In", "NotIn", "Exists", "DoesNotExist"}},
		"WhenUnsatisfiable": {
			"{topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: %s}]}", "/0/whenUnsatisfiable",
			[]string{"Ignore"}, []string{"DoNotSchedule", "ScheduleAnyway"},
		},
		"NodeAffinityPolicy": {spread + "nodeAffinityPolicy: %s}]}", "/0/nodeAffinityPolicy", []string{"honor"}, []string{"Honor", "Ignore"}},
		"NodeTaintsPolicy":   {spread + "nodeTaintsPolicy: %s}]}", "/0/nodeTaintsPolicy", []string{"Respect"}, []string{"Honor", "Ignore"}},
		"TolerationOperator": {tolerated + "operator: %s}]}", "/0/operator", []string{"equal", "In"}, []string{"Equal", "Exists"}},
		"TolerationEffect":   {tolerated + "effect: %s}]}", "/0/effect", []string{"NoRun"}, []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}},
		"Protocol":           {ports + "port: 53, protocol: %s}]}]}}", "/ports/0/protocol", []string{"udp", "HTTP"}, []string{"TCP", "UDP", "SCTP"}},
		"Port":               {ports + "port: %s}]}]}}", "/ports/0/port", []string{"0", "65536", "'443'", "a_b"}, []string{"1", "65535", "https"}},
		"EndPort":            {ports + "port: 1, endPort: %s}]}]}}", "/ports/0/endPort", []string{"0", "65536"}, []string{"65535"}},
		"CIDR": {
			"{networkPolicy: {metricsFrom: [{ipBlock: {cidr: '%s'}}]}}", "/ipBlock/cidr",
			[]string{"10.0.0.0", "10.0.0/8", "10.0.0.0/33", "256.0.0.0/8", "fd00::/129", "fd00/8", "example.com/8"},
			[]string{"0.0.0.0/0", "10.0.0.0/8", "192.168.255.1/32", "::/0", "fd00:1::/64", "2001:db8::1/128"},
		},
		"CIDRException": {"{networkPolicy: {metricsFrom: [{ipBlock: {cidr: 10.0.0.0/8, except: ['%s']}}]}}", "/except/0", []string{"10.0.0.1"}, []string{"10.0.0.1/32"}},
		"Seccomp":       {"{podSecurityContext: {seccompProfile: {type: %s}}}", "/seccompProfile/type", []string{"runtime/default"}, []string{"RuntimeDefault", "Unconfined", "Localhost"}},
		"AppArmor":      {"{podSecurityContext: {appArmorProfile: {type: %s}}}", "/appArmorProfile/type", []string{"Default"}, []string{"RuntimeDefault", "Unconfined", "Localhost"}},
		"FSGroup":       {"{podSecurityContext: {fsGroupChangePolicy: %s}}", "/fsGroupChangePolicy", []string{"Never"}, []string{"OnRootMismatch", "Always"}},
		"SELinux":       {"{podSecurityContext: {seLinuxChangePolicy: %s}}", "/seLinuxChangePolicy", []string{"Always"}, []string{"MountOption", "Recursive"}},
		"Groups":        {"{podSecurityContext: {supplementalGroupsPolicy: %s}}", "/supplementalGroupsPolicy", []string{"merge"}, []string{"Merge", "Strict"}},
		"AgentSettings": {
			"{import: {agentSettings: [%s]}}", "/import/agentSettings/0", []string{"image", "'*'", "Tolerations"},
			[]string{"tolerations", "node-affinity", "resources", "priority-class", "pod-disruption-budget", "private-registry", "registry-pull-secrets"},
		},
		"AgentTolerations": {
			"{import: {agentDefaults: {tolerations: [{key: a, operator: %s}]}}}", "/tolerations/0/operator", []string{"Gt", "exists"}, []string{"Exists", "Equal"},
		},
		"PullPolicy": {"{image: {pullPolicy: %s}}", "/image/pullPolicy", []string{"always"}, []string{"Always", "IfNotPresent", "Never"}},
		"ImageVolume": {
			"{extraVolumes: [{name: a, image: {reference: b, pullPolicy: %s}}]}", "/image/pullPolicy",
			[]string{"ifNotPresent"}, []string{"Always", "IfNotPresent", "Never"},
		},
		"HostPath":    {"{extraVolumes: [{name: a, hostPath: {path: /a, type: '%s'}}]}", "/hostPath/type", []string{"Folder"}, []string{"", "Directory", "Socket"}},
		"Medium":      {"{extraVolumes: [{name: a, emptyDir: {medium: '%s'}}]}", "/emptyDir/medium", []string{"memory", "Disk"}, []string{"", "Memory", "HugePages", "HugePages-2Mi"}},
		"Propagation": {mount + "mountPropagation: %s}]}", "/0/mountPropagation", []string{"Shared"}, []string{"None", "HostToContainer", "Bidirectional"}},
		"ReadOnly":    {mount + "readOnly: true, recursiveReadOnly: %s}]}", "/0/recursiveReadOnly", []string{"Always"}, []string{"Disabled", "IfPossible", "Enabled"}},
		"KeyType": {
			"{extraVolumes: [{name: a, projected: {sources: [{podCertificate: {signerName: a/b, keyType: %s}}]}}]}", "/podCertificate/keyType",
			[]string{"RSA"}, []string{"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"},
		},
	}
}
