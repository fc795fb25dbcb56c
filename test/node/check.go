package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// unsupported says what a Pod asks for and this node does not know, nothing if there is no such thing. To go on without
// it would show something that is not so in a cluster.
func unsupported(object *corev1.Pod) string {
	spec := &object.Spec
	switch {
	case len(spec.InitContainers) > 0:
		return "test/node does not know init containers"
	case spec.ActiveDeadlineSeconds != nil:
		return "test/node does not know activeDeadlineSeconds of Pods"
	case len(spec.ReadinessGates) > 0:
		return "test/node does not know readiness gates"
	}
	for i := range spec.Volumes {
		if what := unknownVolume(&spec.Volumes[i]); what != "" {
			return what
		}
	}
	for i := range spec.Containers {
		if what := unknownInContainer(&spec.Containers[i]); what != "" {
			return fmt.Sprintf("test/node does not know %s, which container %s has", what, spec.Containers[i].Name)
		}
	}
	return ""
}

func unknownVolume(volume *corev1.Volume) string {
	known := volume.Secret != nil || volume.ConfigMap != nil || volume.EmptyDir != nil || volume.DownwardAPI != nil || volume.Projected != nil
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			known = known && (source.Secret != nil || source.ConfigMap != nil || source.DownwardAPI != nil || source.ServiceAccountToken != nil)
		}
	}
	if known {
		return ""
	}
	return fmt.Sprintf("test/node does not know the kind of volume %s", volume.Name)
}

func unknownInContainer(c *corev1.Container) string {
	for _, mount := range c.VolumeMounts {
		if mount.SubPath != "" || mount.SubPathExpr != "" {
			return "subPath"
		}
	}
	if c.RestartPolicy != nil {
		return "a restartPolicy of a container"
	}
	if hooks := c.Lifecycle; hooks != nil && (hooks.PostStart != nil || hooks.PreStop != nil && hooks.PreStop.Sleep == nil) {
		return "hooks other than the sleep of preStop"
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if probe != nil && probe.HTTPGet == nil && probe.TCPSocket == nil {
			return "probes other than httpGet and tcpSocket"
		}
	}
	return ""
}

// rootRefused is the kubelet's check that a container which must not run as root does not. Images have no user here, so
// the Pod has to say which one it wants.
func rootRefused(object *corev1.Pod, spec corev1.Container) string {
	own, outer := ptr.Deref(spec.SecurityContext, corev1.SecurityContext{}), ptr.Deref(object.Spec.SecurityContext, corev1.PodSecurityContext{})
	nonRoot, user := own.RunAsNonRoot, own.RunAsUser
	if nonRoot == nil {
		nonRoot = outer.RunAsNonRoot
	}
	if user == nil {
		user = outer.RunAsUser
	}
	switch {
	case !is(nonRoot):
		return ""
	case user == nil:
		return "container has runAsNonRoot and image will run as root"
	case *user == 0:
		return "container's runAsUser breaks non-root policy"
	}
	return ""
}
