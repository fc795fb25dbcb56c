package kind

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"
)

const (
	// auditDir is where nodes have the directory of the policy, and their audit log beside it.
	auditDir = "/etc/kubernetes/audit"
	auditLog = "/var/log/kubernetes/audit.log"

	// podResolver is where a node image without kind's rewriting of the engine's resolver, which Pods
	// cannot reach, has one for Pods.
	podResolver = "/etc/resolv.pods"
)

// auditPolicy records who asked for what and how it was answered, never bodies.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  userGroups: ["system:nodes", "system:serviceaccounts:kube-system"]
- level: None
  users: ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager"]
- level: Metadata
`

// auditPatch has the API server log before it answers, so that a caller who has seen the answer finds the event.
// Arguments are a map and there is no apiVersion, because that is what kind makes both of: the list of kubeadm's
// v1beta4 from Kubernetes v1.36 on, and the map of v1beta3 before, which a list would replace.
const auditPatch = `
kind: ClusterConfiguration
apiServer:
  extraArgs:
    audit-policy-file: ` + auditDir + `/policy.yaml
    audit-log-path: ` + auditLog + `
    audit-log-mode: blocking-strict
    audit-log-maxsize: "100000" # MB: it is read from where a stage began, so it must not be rotated
  extraVolumes:
  - {name: audit-policy, hostPath: ` + auditDir + `, mountPath: ` + auditDir + `, readOnly: true, pathType: Directory}
  - {name: audit-log, hostPath: /var/log/kubernetes, mountPath: /var/log/kubernetes, pathType: DirectoryOrCreate}
`

// cgroup1Patch lets a kubelet run on an engine with cgroup v1, which Kubernetes refuses by default since v1.35, and
// with the rights that such an engine may lack.
const cgroup1Patch = `
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
oomScoreAdj: 0
`

const proxyPatch = `
kind: KubeProxyConfiguration
oomScoreAdj: 0
`

// configuration returns that of all clusters of the world of the given name. The directory is mounted by their nodes.
func configuration(ctx context.Context, name, dir string) (*v1alpha4.Cluster, error) {
	config := &v1alpha4.Cluster{}
	if path := os.Getenv("KIND_CLUSTER_CONFIG"); path != "" {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("KIND_CLUSTER_CONFIG: %w", err)
		}
		if err := yaml.UnmarshalStrict(raw, config); err != nil {
			return nil, fmt.Errorf("KIND_CLUSTER_CONFIG: %s is not the configuration of a cluster of kind: %w", path, err)
		}
	} else if err := suitEngine(ctx, name, config); err != nil {
		return nil, err
	}
	v1alpha4.SetDefaultsCluster(config) // kind does it too, but after the mounts
	if planes := controlPlanes(config); len(planes) > 1 {
		return nil, fmt.Errorf("KIND_CLUSTER_CONFIG: %d nodes are of the role control-plane, but the audit log and restarts are those of one; workers may be as many as you like", len(planes))
	}
	audit := filepath.Join(dir, "audit")
	if err := os.MkdirAll(audit, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(audit, "policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	for _, plane := range controlPlanes(config) {
		plane.ExtraMounts = append(plane.ExtraMounts, v1alpha4.Mount{HostPath: audit, ContainerPath: auditDir, Readonly: true})
	}
	config.KubeadmConfigPatches = append(config.KubeadmConfigPatches, auditPatch)
	return config, nil
}

// controlPlanes returns the nodes of a configuration that run an API server.
func controlPlanes(config *v1alpha4.Cluster) []*v1alpha4.Node {
	var planes []*v1alpha4.Node
	for i := range config.Nodes {
		if config.Nodes[i].Role == v1alpha4.ControlPlaneRole {
			planes = append(planes, &config.Nodes[i])
		}
	}
	return planes
}

// suitEngine adds what the engine and the node image of this machine need.
func suitEngine(ctx context.Context, name string, config *v1alpha4.Cluster) error {
	version, err := exec.CommandContext(ctx, "docker", "info", "--format", "{{.CgroupVersion}}").Output()
	if err != nil {
		return fmt.Errorf("asking the engine for its version of cgroups: %w", err)
	}
	if strings.TrimSpace(string(version)) == "1" {
		config.KubeadmConfigPatches = append(config.KubeadmConfigPatches, cgroup1Patch, proxyPatch)
	}
	has, err := imageHas(ctx, name+"-look", os.Getenv("KIND_NODE_IMAGE"), podResolver)
	if err != nil {
		return err
	}
	if has {
		config.KubeadmConfigPatches = append(config.KubeadmConfigPatches, "kind: KubeletConfiguration\nresolvConf: "+podResolver+"\n")
	}
	return nil
}

// imageHas reports whether a node image of one's own, which is on this machine, has a file. The container that it looks
// into goes by the given name while it does.
func imageHas(ctx context.Context, name, image, file string) (bool, error) {
	here := image != "" && exec.CommandContext(ctx, "docker", "image", "inspect", image).Run() == nil
	if !here {
		return false, nil // kind pulls it
	}
	if out, err := exec.CommandContext(ctx, "docker", "create", "--name="+name, image).CombinedOutput(); err != nil {
		return false, fmt.Errorf("looking into image %s: %w\n%s", image, err, out)
	}
	found := exec.CommandContext(ctx, "docker", "cp", name+":"+file, "-").Run() == nil
	if out, err := exec.CommandContext(context.WithoutCancel(ctx), "docker", "rm", "--volumes", name).CombinedOutput(); err != nil {
		return false, fmt.Errorf("removing the container of image %s: %w\n%s", image, err, out)
	}
	return found, nil
}
