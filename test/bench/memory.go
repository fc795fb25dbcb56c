package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryPoll is how often memory is looked at. The kernel keeps the peak of the whole but not of its parts.
const memoryPoll = 50 * time.Millisecond

// resident is the memory of a process that is in RAM, in MiB.
type resident struct {
	// Anon is what the program has allocated, and File what is mapped of files, first of all its own code. The kernel
	// can drop the latter whenever it needs the room.
	Anon, File float64
	// Peak is the highest that the sum has ever been.
	Peak float64
}

// parseStatus reads /proc/PID/status.
func parseStatus(raw []byte) resident {
	var r resident
	fields := map[string]*float64{"RssAnon": &r.Anon, "RssFile": &r.File, "VmHWM": &r.Peak}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(line, ":")
		field, words := fields[name], strings.Fields(value)
		if field == nil || len(words) == 0 {
			continue
		}
		kib, _ := strconv.ParseFloat(words[0], 64)
		*field = kib / 1024
	}
	return r
}

// residentOf returns zeros once the process has ended, and where there is no /proc.
func residentOf(pid int) resident {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return resident{}
	}
	return parseStatus(raw)
}

// memory follows the resident memory of a process.
type memory struct {
	pid           int
	ended, closed chan struct{}
	once          sync.Once

	mu    sync.Mutex
	peaks resident
}

func followMemory(pid int) *memory {
	m := &memory{pid: pid, ended: make(chan struct{}), closed: make(chan struct{})}
	go func() {
		defer close(m.closed)
		ticker := time.NewTicker(memoryPoll)
		defer ticker.Stop()
		for {
			m.look()
			select {
			case <-ticker.C:
			case <-m.ended:
				return
			}
		}
	}()
	return m
}

// look takes the parts' peaks apart: they need not be reached at the same moment.
func (m *memory) look() {
	now := residentOf(m.pid)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peaks = resident{Anon: max(m.peaks.Anon, now.Anon), File: max(m.peaks.File, now.File), Peak: max(m.peaks.Peak, now.Peak)}
}

// soFar returns the peaks until now.
func (m *memory) soFar() resident {
	m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peaks
}

func (m *memory) stop() {
	m.once.Do(func() { close(m.ended) })
	<-m.closed
}
