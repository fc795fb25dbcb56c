package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// schema is a part of values.schema.json, as far as these tests look at it.
type schema struct {
	Ref                  string             `json:"$ref"`
	Description          string             `json:"description"`
	Type                 any                `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties json.RawMessage    `json:"additionalProperties"`
	Items                *schema            `json:"items"`
	Enum                 []any              `json:"enum"`
	Definitions          map[string]*schema `json:"definitions"`
}

func readSchema(t *testing.T) *schema {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := &schema{}
	if err := json.Unmarshal(raw, found); err != nil {
		t.Fatal(err)
	}
	return found
}

func readValues(t *testing.T) *yaml.Node {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(raw, document); err != nil {
		t.Fatal(err)
	}
	return document.Content[0]
}

func TestSchemaIsThatOfTheValues(t *testing.T) {
	compareKeys(t, "", readValues(t), readSchema(t))
}

// compareKeys compares a map of values.yaml with its schema, in both directions. What is defined elsewhere, by $ref, is
// not made of keys of this chart.
func compareKeys(t *testing.T, path string, node *yaml.Node, s *schema) {
	t.Helper()
	var keys []string
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		keys = append(keys, key.Value)
		below := s.Properties[key.Value]
		if below == nil {
			t.Errorf("values.yaml has %s%s, which values.schema.json does not know", path, key.Value)
			continue
		}
		group := below.Ref == "" && value.Kind == yaml.MappingNode
		comment, documented := strings.CutPrefix(key.HeadComment, "# -- ")
		switch {
		case documented && comment != below.Description:
			t.Errorf("%s%s is %q in values.yaml and %q in values.schema.json", path, key.Value, comment, below.Description)
		case !documented && !group:
			t.Errorf("%s%s has no comment in values.yaml", path, key.Value)
		}
		if group {
			compareKeys(t, path+key.Value+".", value, below)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if path == "" && key == "enabled" { // For charts that depend on this one. In values.yaml it would look as if it did something.
			continue
		}
		if strings.HasPrefix(s.Properties[key].Description, "Removed: ") { // A guard speaks to those who still have it.
			continue
		}
		if !slices.Contains(keys, key) {
			t.Errorf("values.schema.json has %s%s, which values.yaml does not have", path, key)
		}
	}
}

func TestSchemaIsClosed(t *testing.T) {
	s := readSchema(t)
	checkClosed(t, "", s)
	for name, definition := range s.Definitions {
		if definition.Description == "" {
			t.Errorf("definition %s has no description", name)
		}
		checkClosed(t, "definitions."+name, definition)
	}
}

// checkClosed wants every map to name its keys or to say what its values are, but for what Rancher adds to, and
// every key to have a description.
func checkClosed(t *testing.T, path string, s *schema) {
	t.Helper()
	open := string(s.AdditionalProperties) == "true"
	switch global := path == ".global" || path == ".global.cattle"; {
	case s.Type != "object":
	case global && !open:
		t.Errorf("%s takes no keys that Rancher adds", path)
	case !global && (open || s.AdditionalProperties == nil):
		t.Errorf("%s takes keys of any name with anything in them", path)
	}
	if s.Items != nil {
		checkClosed(t, path+"[]", s.Items)
	}
	for key, below := range s.Properties {
		if below.Description == "" {
			t.Errorf("%s.%s has no description", path, key)
		}
		checkClosed(t, path+"."+key, below)
	}
}

func TestBadValues(t *testing.T) {
	for set, key := range badValues() {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			refuse(t, set, key)
		})
	}
}

// refuse wants the schema to refuse values, with a message that names the key.
func refuse(t *testing.T, set, key string) {
	t.Helper()
	switch _, err := template(t.Context(), release{"archelon", "archelon-system"}, parseValues(t, set)); {
	case err == nil:
		t.Errorf("%s was accepted", set)
	case !strings.Contains(err.Error(), "don't meet the specifications of the schema"):
		t.Errorf("%s was not refused by the schema: %v", set, err)
	case !strings.Contains(err.Error(), key):
		t.Errorf("%s: the message does not name %s: %v", set, key, err)
	}
}

func parseValues(t *testing.T, set string) values {
	t.Helper()
	v := values{}
	if err := sigsyaml.Unmarshal([]byte(set), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// badValues has values that are refused, and how the message names them.
func badValues() map[string]string {
	digest := strings.Repeat("0", 63)
	return map[string]string{
		// Keys.
		"{replica: 2}": "'replica'",
		"{features: {managementv3: {enabled: true}}}":        "'managementv3'",
		"{features: {managementv3-cluster: true}}":           "/features/managementv3-cluster",
		"{features: {managementv3-cluster: {enable: true}}}": "'enable'",
		"{metrics: {serviceMonitor: {scrapeInterval: 1m}}}":  "'scrapeInterval'",
		"{uninstall: {deleteRecord: true}}":                  "'deleteRecord'",
		"{resources: {request: {cpu: 1}}}":                   "'request'",
		"{affinity: {podAffinty: {}}}":                       "'podAffinty'",
		"{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerm: []}}}}": "'nodeSelectorTerm'",
		"{tolerations: [{key: a, operators: Exists}]}":                                                         "'operators'",
		"{extraEnv: [{name: A, valueFrom: {secretKeyRef: {name: a, keys: b}}}]}":                               "'keys'",
		"{extraVolumes: [{name: a, secret: {name: b}}]}":                                                       "/extraVolumes/0/secret",
		"{extraVolumeMounts: [{name: a, mountPath: /a, readonly: true}]}":                                      "'readonly'",
		"{podSecurityContext: {privileged: true}}":                                                             "'privileged'",
		"{networkPolicy: {metricsFrom: [{namespaceSelecter: {}}]}}":                                            "'namespaceSelecter'",
		"{networkPolicy: {egress: [{from: []}]}}":                                                              "'from'",
		"{global: {cattle: {systemDefaultRegistry: 1}}}":                                                       "/global/cattle/systemDefaultRegistry",
		// Types.
		`{replicaCount: "2"}`:                   "/replicaCount",
		"{replicaCount: 1.5}":                   "/replicaCount",
		"{namespaces: watch1}":                  "/namespaces",
		`{metrics: {enabled: "false"}}`:         "/metrics/enabled",
		`{metrics: {port: "8443"}}`:             "/metrics/port",
		"{extraArgs: --v=1}":                    "/extraArgs",
		"{extraEnv: [{name: GOGC, value: 80}]}": "/extraEnv/0/value",
		"{podLabels: {a: true}}":                "/podLabels/a",
		"{nodeSelector: {a: 1}}":                "/nodeSelector/a",
		"{import: {workloadTimeout: 10}}":       "/import/workloadTimeout",
		"{turtles: {adopt: 1}}":                 "/turtles/adopt",
		"{turtles: {parked: 1}}":                "/turtles/parked",
		// Ranges and formats.
		"{replicaCount: -1}":                                           "/replicaCount",
		"{namespaces: [Watch1]}":                                       "/namespaces/0",
		"{namespaces: [a.b]}":                                          "/namespaces/0",
		"{namespaces: [a, a]}":                                         "/namespaces",
		"{namespaces: [" + strings.Repeat("a", 64) + "]}":              "/namespaces/0",
		"{turtles: {namespaces: []}}":                                  "/turtles/namespaces",
		"{turtles: {namespaces: [A]}}":                                 "/turtles/namespaces/0",
		"{fleetWorkspaces: ['*']}":                                     "/fleetWorkspaces/0",
		"{excludedNamespaces: [-a]}":                                   "/excludedNamespaces/0",
		"{excludedNamespaces: [a, b, a]}":                              "/excludedNamespaces",
		"{watchFilter: a b}":                                           "/watchFilter",
		"{watchFilter: a-}":                                            "/watchFilter",
		"{instance: archelon.1}":                                       "/instance",
		"{instance: Archelon}":                                         "/instance",
		"{nameOverride: 1a}":                                           "/nameOverride",
		"{fullnameOverride: " + strings.Repeat("a", 41) + "}":          "/fullnameOverride",
		"{import: {syncPeriod: 10 minutes}}":                           "/import/syncPeriod",
		"{import: {syncPeriod: 1d}}":                                   "/import/syncPeriod",
		"{import: {manifestTimeout: 0s}}":                              "/import/manifestTimeout",
		"{import: {manifestTimeout: -5s}}":                             "/import/manifestTimeout",
		"{import: {concurrency: 0}}":                                   "/import/concurrency",
		"{import: {selector: a=b}}":                                    "/import/selector",
		"{import: {selector: {label: a=b}}}":                           "'label'",
		"{import: {selector: {classes: [a/b/c]}}}":                     "/import/selector/classes/0",
		"{import: {selector: {classes: ['*']}}}":                       "/import/selector/classes/0",
		"{import: {selector: {namespaces: ['tenant-*']}}}":             "/import/selector/namespaces/0",
		"{import: {early: 1}}":                                         "/import/early",
		"{import: {displayName: NAMESPACE-NAME}}":                      "/import/displayName",
		"{import: {clusterClassLabels: 1}}":                            "/import/clusterClassLabels",
		"{import: {unpropagatedLabels: ['a/b/c']}}":                    "/import/unpropagatedLabels/0",
		"{import: {propagatedAnnotations: ['*/b']}}":                   "/import/propagatedAnnotations/0",
		"{import: {agentSettings: [tolerations, tolerations]}}":        "/import/agentSettings",
		"{import: {agentDefaults: {env: [{name: 'A=B'}]}}}":            "/import/agentDefaults/env/0/name",
		"{import: {agentDefaults: {env: [{name: A, valueFrom: {}}]}}}": "'valueFrom'",
		"{import: {manifestMaxBytes: 0}}":                              "/import/manifestMaxBytes",
		"{kubeAPI: {qps: 0}}":                                          "/kubeAPI/qps",
		"{leaderElection: {namespace: A}}":                             "/leaderElection/namespace",
		"{leaderElection: {leaseDuration: 15}}":                        "/leaderElection/leaseDuration",
		"{metrics: {port: 0}}":                                         "/metrics/port",
		"{metrics: {port: 65536}}":                                     "/metrics/port",
		`{admissionPolicy: {enabled: "yes"}}`:                          "/admissionPolicy/enabled",
		"{image: {digest: 'sha256:" + digest + "'}}":                   "/image/digest",
		"{image: {digest: " + digest + "0}}":                           "/image/digest",
		"{image: {tag: 'a:b'}}":                                        "/image/tag",
		"{image: {repository: Archelon}}":                              "/image/repository",
		"{image: {registry: 'https://registry'}}":                      "/image/registry",
		"{image: {pullPolicy: Sometimes}}":                             "/image/pullPolicy",
		"{imagePullSecrets: [1]}":                                      "/imagePullSecrets/0",
		"{imagePullSecrets: [a..b]}":                                   "/imagePullSecrets/0",
		"{global: {imagePullSecrets: [{names: a}]}}":                   "/global/imagePullSecrets/0",
		"{imagePullSecrets: [{}]}":                                     "/imagePullSecrets/0",
		"{resources: {limits: {memory: 512 MB}}}":                      "/resources/limits/memory",
		"{resources: {limits: {memory: -1}}}":                          "/resources/limits/memory",
		"{log: {format: yaml}}":                                        "/log/format",
		"{log: {level: -1}}":                                           "/log/level",
		"{proxy: {https: 'proxy:3128'}}":                               "/proxy/https",
		"{proxy: {noProxy: 'a, b'}}":                                   "/proxy/noProxy",
		"{tolerations: [{operator: exists}]}":                          "/tolerations/0/operator",
		"{topologySpreadConstraints: [{maxSkew: 1, topologyKey: a}]}":  "'whenUnsatisfiable'",
		"{extraVolumeMounts: [{name: a, mountPath: a}]}":               "/extraVolumeMounts/0/mountPath",
		"{extraArgs: [profiler-address=x]}":                            "/extraArgs/0",
		"{commonLabels: {app.kubernetes.io/name: other}}":              "app.kubernetes.io/name",
		"{podLabels: {archelon.io/scope: central}}":                    "archelon.io/scope",
		"{podLabels: {a: b c}}":                                        "/podLabels/a",
		"{podDisruptionBudget: {maxUnavailable: half}}":                "/podDisruptionBudget/maxUnavailable",
		"{metrics: {readers: [{name: prometheus}]}}":                   "'namespace'",
		"{metrics: {serviceMonitor: {interval: 1 minute}}}":            "/metrics/serviceMonitor/interval",
		"{metrics: {prometheusRule: {alertLabels: {severity: page}}}}": "severity",
		"{metrics: {dashboard: {namespace: A}}}":                       "/metrics/dashboard/namespace",
		"{uninstall: {timeoutSeconds: 0}}":                             "/uninstall/timeoutSeconds",
		// What the schema of a kind takes, and the API server, Go or the manager does not.
		"{resources: {claims: [{name: a}]}}":                                                        "'claims'",
		"{podDisruptionBudget: {maxUnavailable: 150%}}":                                             "/podDisruptionBudget/maxUnavailable",
		"{global: {cattle: {systemDefaultRegistry: 'https://registry'}}}":                           "/global/cattle/systemDefaultRegistry",
		"{image: {repository: a//b}}":                                                               "/image/repository",
		"{image: {repository: a/b.}}":                                                               "/image/repository",
		"{image: {registry: registry//a}}":                                                          "/image/registry",
		"{import: {workloadTimeout: 9999999h}}":                                                     "/import/workloadTimeout",
		"{import: {manifestTimeout: " + strings.Repeat("99999h", 30) + "}}":                         "/import/manifestTimeout",
		"{import: {syncPeriod: 9999999h}}":                                                          "/import/syncPeriod",
		"{import: {syncPeriod: 1ns}}":                                                               "/import/syncPeriod",
		"{import: {syncPeriod: ''}}":                                                                "/import/syncPeriod",
		"{networkPolicy: {metricsFrom: [{}]}}":                                                      "/networkPolicy/metricsFrom/0",
		"{networkPolicy: {metricsFrom: [{ipBlock: {cidr: 10.0.0.0/8}, podSelector: {}}]}}":          "/networkPolicy/metricsFrom/0",
		"{networkPolicy: {egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8}, namespaceSelector: {}}]}]}}": "/networkPolicy/egress/0/to/0",
		"{networkPolicy: {egress: [{ports: [{endPort: 444}]}]}}":                                    "'port'",
		"{networkPolicy: {egress: [{ports: [{port: https, endPort: 444}]}]}}":                       "/networkPolicy/egress/0/ports/0/port",
		"{tolerations: [{operator: Equal}]}":                                                        "/tolerations/0",
		"{tolerations: [{effect: NoExecute}]}":                                                      "/tolerations/0",
		"{tolerations: [{key: a, tolerationSeconds: 60}]}":                                          "'effect'",
		"{tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 60}]}":                      "/tolerations/0/effect",
		"{extraEnv: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}":      "/extraEnv/0",
		"{extraEnv: [{name: A, valueFrom: {}}]}":                                                    "/extraEnv/0/valueFrom",
		"{extraVolumes: [{name: A_b}]}":                                                             "/extraVolumes/0/name",
		"{imagePullSecrets: [{name: a..b}]}":                                                        "/imagePullSecrets/0/name",
		"{serviceAccount: {name: a.-b}}":                                                            "/serviceAccount/name",
		"{priorityClassName: a..b}":                                                                 "/priorityClassName",
		"{podLabels: {a..b/c: d}}":                                                                  "a..b/c",
		"{updateStrategy: {type: OnDelete}}":                                                        "/updateStrategy/type",
		"{updateStrategy: {rollingUpdate: {maxSurge: 0}}}":                                          "/updateStrategy/rollingUpdate",
		"{updateStrategy: {rollingUpdate: {maxSurge: 0%, maxUnavailable: 0%}}}":                     "/updateStrategy/rollingUpdate",
		"{updateStrategy: {rollingUpdate: {maxUnavailable: 150%}}}":                                 "/updateStrategy/rollingUpdate/maxUnavailable",
		"{metrics: {serviceMonitor: {scrapeTimeout: 10}}}":                                          "/metrics/serviceMonitor/scrapeTimeout",
		"{metrics: {serviceMonitor: {relabelings: [{source_labels: [a]}]}}}":                        "'source_labels'",
		"{metrics: {serviceMonitor: {metricRelabelings: [{action: remove}]}}}":                      "/metrics/serviceMonitor/metricRelabelings/0/action",
		"{metrics: {prometheusRule: {job: 'a\"b'}}}":                                                "/metrics/prometheusRule/job",
	}
}
