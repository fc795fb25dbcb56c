package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// board is what is drawn of a dashboard of Grafana.
type board struct {
	Title  string  `json:"title"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets     []target `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit       string   `json:"unit"`
			Max        *float64 `json:"max"`
			Thresholds struct {
				Steps []threshold `json:"steps"`
			} `json:"thresholds"`
			Custom struct {
				FillOpacity float64 `json:"fillOpacity"`
				Stacking    struct {
					Mode string `json:"mode"`
				} `json:"stacking"`
			} `json:"custom"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Transformations []struct {
		Options struct {
			Include struct {
				Pattern string `json:"pattern"`
			} `json:"include"`
		} `json:"options"`
	} `json:"transformations"`
}

type target struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

type threshold struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"` // nil for all that is below the next
}

// The target that the manager is to Prometheus, and how Grafana fills in the variables of the dashboard.
const (
	namespace = "archelon-system"
	job       = "archelon"
	pod       = "archelon-0"
	// window is that of rates: long enough for a curve that one can read.
	window = "15s"
)

func (t target) query() string {
	return strings.NewReplacer("$namespace", namespace, "$job", job, "$__rate_interval", window).Replace(t.Expr)
}

// read reads a dashboard of the chart, whose title has placeholders for the same.
func read(file string) (board, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return board{}, err
	}
	var b board
	if err := json.Unmarshal(raw, &b); err != nil {
		return board{}, fmt.Errorf("reading %s: %w", file, err)
	}
	b.Title = strings.NewReplacer("NAMESPACE", namespace, "JOB", job).Replace(b.Title)
	return b, nil
}
