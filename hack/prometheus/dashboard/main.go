// Command dashboard draws the dashboard of the chart as Grafana would show it, with what a
// manager has said in its metrics.
//
//	dashboard --metrics=FILE --dashboard=FILE.json --out=FILE.svg
//
// The metrics are those that the demo notes: what the manager has answered, each time below a line "# AT MILLISECONDS".
// Queries are evaluated by Prometheus.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("dashboard", flag.ContinueOnError)
	metrics := flags.String("metrics", "", "file with the metrics")
	from := flags.String("dashboard", "", "file with the dashboard")
	out := flags.String("out", "", "file for the picture")
	if err := flags.Parse(args); err != nil {
		return err
	}
	board, err := read(*from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(*metrics)
	if err != nil {
		return err
	}
	r, err := load(ctx, content)
	if err != nil {
		return fmt.Errorf("reading %s: %w", *metrics, err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	picture, err := draw(ctx, board, r)
	if err != nil {
		return err
	}
	return os.WriteFile(*out, picture, 0o644)
}
