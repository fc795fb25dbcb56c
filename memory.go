package main

import "strconv"

// memoryLimit names the environment variable with the memory limit of the container in bytes, which the chart
// sets. memoryShare is the percentage of it that the garbage collector keeps below: stacks, code and what the
// kernel counts need the rest. A burst is then collected before the container is killed for it. The environment
// variable GOMEMLIMIT has precedence.
const (
	memoryLimit = "ARCHELON_MEMORY_LIMIT"
	memoryShare = 90
)

// limitMemory has the garbage collector know the memory limit of the container. What is no number of bytes is no limit.
func limitMemory(environment func(string) string, set func(int64) int64) {
	limit, err := strconv.ParseInt(environment(memoryLimit), 10, 64)
	if err != nil || limit <= 0 || environment("GOMEMLIMIT") != "" {
		return
	}
	set(limit / 100 * memoryShare)
}
