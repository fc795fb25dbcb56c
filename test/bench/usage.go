package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// userHZ is the unit of CPU times in /proc, on every Linux.
const userHZ = 100

// usage is what a process has used so far.
type usage struct {
	PID int `json:"-"`
	// CPUSeconds is user and system time.
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakMiB is the highest resident set size.
	PeakMiB float64 `json:"peakMiB"`
}

// sample is the state of the machine at one moment.
type sample struct {
	// processes are the programs that the benchmark has started, and itself as "bench".
	processes map[string]usage
	// busy and total are the CPU seconds of the whole machine since it started.
	busy, total float64
}

// measure reads /proc. Elsewhere it returns nothing.
func measure() (sample, error) {
	s := sample{processes: map[string]usage{}}
	if runtime.GOOS != "linux" {
		return s, nil
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return s, fmt.Errorf("reading the resource usage: %w", err)
	}
	s.processes["bench"] = usage{
		PID:        os.Getpid(),
		CPUSeconds: float64(self.Utime.Nano()+self.Stime.Nano()) / 1e9,
		PeakMiB:    float64(self.Maxrss) / 1024,
	}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return s, err
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		name, child, err := parseStat(raw, os.Getpid())
		if err != nil {
			return s, fmt.Errorf("reading %s: %w", path, err)
		}
		if name == "" {
			continue
		}
		child.PID, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		child.PeakMiB = residentOf(child.PID).Peak
		s.processes[name] = child
	}
	s.busy, s.total, err = machine()
	return s, err
}

// parseStat reads the line of a process; the name is empty unless it is one of the programs, and a child of parent.
func parseStat(raw []byte, parent int) (string, usage, error) {
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return "", usage{}, fmt.Errorf("unexpected %q", raw)
	}
	// Fields are numbered from 1 in proc(5); the one after the name is the third.
	fields := strings.Fields(string(raw[end+1:]))
	if len(fields) < 13 {
		return "", usage{}, fmt.Errorf("unexpected %q", raw)
	}
	if fields[1] != strconv.Itoa(parent) {
		return "", usage{}, nil
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return "", usage{}, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	if err != nil {
		return "", usage{}, err
	}
	return programOf(string(raw[open+1 : end])), usage{CPUSeconds: (user + system) / userHZ}, nil
}

// programOf completes a name that the kernel has cut off after 15 characters.
func programOf(name string) string {
	for _, program := range []string{"archelon", "etcd", "kube-apiserver", "kube-controller-manager"} {
		if strings.HasPrefix(program, strings.TrimSuffix(name, ".bin")) || strings.HasPrefix(name, program) {
			return program
		}
	}
	return ""
}

// machine returns the CPU seconds of all CPUs together.
func machine() (busy, total float64, err error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	for i, field := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading /proc/stat: %w", err)
		}
		const idle, iowait, guest = 3, 4, 8 // guest time is in user time already
		if i >= guest {
			break
		}
		total += ticks / userHZ
		if i != idle && i != iowait {
			busy += ticks / userHZ
		}
	}
	return busy, total, nil
}

// since returns what the programs used after the earlier sample, with the peaks until now, and the share of the
// machine's time, from 0 to 1, that others used.
func (s sample) since(earlier sample) (map[string]usage, float64) {
	spent := map[string]usage{}
	var ours float64
	for name, now := range s.processes {
		now.CPUSeconds -= earlier.processes[name].CPUSeconds
		ours += now.CPUSeconds
		spent[name] = now
	}
	if s.total <= earlier.total {
		return spent, 0
	}
	return spent, max(0, (s.busy-earlier.busy-ours)/(s.total-earlier.total))
}
