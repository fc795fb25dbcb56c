package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// dialPause is how often it is tried whether a container already listens.
const dialPause = 20 * time.Millisecond

// observe notices the end of the run and looks after its probes.
func (r *run) observe(c *container) {
	if c.spec.StartupProbe == nil {
		r.started = true
		r.ready = c.spec.ReadinessProbe == nil
	}
	node := c.pod.node
	node.work.Go(func() {
		<-r.process.Done()
		c.pod.poke()
	})
	node.work.Go(func() {
		if !r.startup(c) {
			return
		}
		if c.spec.LivenessProbe != nil {
			node.work.Go(func() { r.liveness(c, c.spec.LivenessProbe) })
		}
		if c.spec.ReadinessProbe != nil {
			r.readiness(c, c.spec.ReadinessProbe)
		}
	})
}

// startup reports whether the other probes may begin.
func (r *run) startup(c *container) bool {
	if c.spec.StartupProbe == nil {
		return true
	}
	up := false
	r.probe(c, c.spec.StartupProbe, func(passed bool) bool {
		if up = passed; passed {
			r.set(c, func() { r.started, r.ready = true, c.spec.ReadinessProbe == nil })
		} else {
			r.giveUp(c, c.spec.StartupProbe)
		}
		return false
	})
	return up
}

func (r *run) readiness(c *container, probe *corev1.Probe) {
	r.probe(c, probe, func(passed bool) bool {
		r.set(c, func() { r.ready = passed })
		return true
	})
}

func (r *run) liveness(c *container, probe *corev1.Probe) {
	r.probe(c, probe, func(passed bool) bool {
		if !passed {
			r.giveUp(c, probe)
		}
		return passed
	})
}

func (r *run) giveUp(c *container, probe *corev1.Probe) {
	r.set(c, func() {
		r.dead = true
		if seconds := probe.TerminationGracePeriodSeconds; seconds != nil {
			r.grace = new(time.Duration(*seconds) * time.Second)
		}
	})
}

func (r *run) set(c *container, change func()) {
	r.mu.Lock()
	change()
	r.mu.Unlock()
	c.pod.poke()
}

func (r *run) unhealthy() (bool, *time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead, r.grace
}

// probe calls verdict each time that as many tries in a row as the thresholds say had the same result and the time
// before they had another one, until verdict does not want to go on or the run ends.
func (r *run) probe(c *container, probe *corev1.Probe, verdict func(passed bool) bool) {
	period := time.Duration(max(probe.PeriodSeconds, 1)) * time.Second
	r.pause(time.Duration(probe.InitialDelaySeconds) * time.Second)
	r.listening(c, probe, period)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	var last, reported *bool
	inRow := int32(0)
	for r.ctx.Err() == nil {
		err := r.try(c, probe)
		if r.ctx.Err() != nil {
			return
		}
		passed := err == nil
		if last == nil || *last != passed {
			last, inRow = &passed, 0
		}
		inRow++
		threshold := max(probe.FailureThreshold, 1)
		if passed {
			threshold = max(probe.SuccessThreshold, 1)
		}
		if inRow >= threshold && (reported == nil || *reported != passed) {
			reported = &passed
			if !passed {
				c.pod.node.complain(fmt.Errorf("pod %s, container %s: probe failed: %w", c.pod.key, c.spec.Name, err))
			}
			if !verdict(passed) {
				return
			}
		}
		select {
		case <-r.ctx.Done():
		case <-ticker.C:
		}
	}
}

// listening waits until the probe's port is open, for at most a period, so that a program that needs a moment to start
// does not cost its test a whole period.
func (r *run) listening(c *container, probe *corev1.Probe, period time.Duration) {
	ctx, cancel := context.WithTimeout(r.ctx, period)
	defer cancel()
	for ctx.Err() == nil {
		if c.dial(ctx, probe) == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(dialPause):
		}
	}
}

func (r *run) pause(delay time.Duration) {
	select {
	case <-r.ctx.Done():
	case <-time.After(delay):
	}
}

func (r *run) try(c *container, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(r.ctx, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	if probe.HTTPGet == nil {
		return c.dial(ctx, probe)
	}
	address, err := c.address(probe)
	if err != nil {
		return err
	}
	get := probe.HTTPGet
	url := strings.ToLower(string(get.Scheme)) + "://" + address + "/" + strings.TrimPrefix(get.Path, "/")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/test-node")
	for _, header := range get.HTTPHeaders {
		request.Header.Set(header.Name, header.Value)
	}
	// As the kubelet: a connection of its own each time, and whatever certificate there is.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answered %s", url, response.Status)
	}
	return nil
}

func (c *container) dial(ctx context.Context, probe *corev1.Probe) error {
	address, err := c.address(probe)
	if err != nil {
		return err
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// address is where on this machine a probe goes to.
func (c *container) address(probe *corev1.Probe) (string, error) {
	var port intstr.IntOrString
	if probe.HTTPGet != nil {
		port = probe.HTTPGet.Port
	} else {
		port = ptr.Deref(probe.TCPSocket, corev1.TCPSocketAction{}).Port
	}
	name := port.StrVal
	if port.Type == intstr.Int {
		name = strconv.Itoa(int(port.IntVal))
	}
	address, declared := c.pod.ports.address(name)
	if !declared {
		return "", fmt.Errorf("the port %s of the probe is no containerPort", name)
	}
	return address, nil
}
