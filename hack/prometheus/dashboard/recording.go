package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
)

const (
	mark = "# AT "
	step = time.Second
	// pause is what is left of a longer time without metrics: between two stories there is nothing to see.
	pause = 3 * step
)

var errEmpty = errors.New("there are no metrics")

// recording is what a manager has said in its metrics, in a database of Prometheus.
type recording struct {
	dir        string
	db         *tsdb.DB
	engine     *promql.Engine
	start, end time.Time
}

// load stores all that was noted.
func load(ctx context.Context, content []byte) (_ *recording, err error) {
	r := &recording{}
	if r.dir, err = os.MkdirTemp("", "archelon-dashboard-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	options := tsdb.DefaultOptions()
	options.RetentionDuration = math.MaxInt64
	if r.db, err = tsdb.Open(r.dir, slog.New(slog.DiscardHandler), nil, options, nil); err != nil {
		return nil, err
	}
	r.engine = promql.NewEngine(promql.EngineOpts{MaxSamples: math.MaxInt32, Timeout: time.Minute, LookbackDelta: pause})
	var last, cut int64
	for block := range bytes.SplitSeq(content, []byte(mark)) {
		line, metrics, found := bytes.Cut(block, []byte("\n"))
		if !found {
			continue
		}
		at, err := strconv.ParseInt(string(line), 10, 64)
		if err != nil {
			return nil, err
		}
		if last > 0 {
			cut += max(0, at-last-pause.Milliseconds())
		}
		last = at
		if err := r.store(ctx, metrics, at-cut); err != nil {
			return nil, err
		}
	}
	if r.end.IsZero() {
		return nil, errEmpty
	}
	return r, nil
}

// store takes what was scraped at a time, as Prometheus does: with the labels of the target, which win over
// others, and with series up.
func (r *recording) store(ctx context.Context, metrics []byte, at int64) error {
	r.end = time.UnixMilli(at)
	if r.start.IsZero() {
		r.start = r.end
	}
	own := labels.FromStrings("namespace", namespace, "job", job, "pod", pod, "instance", pod+":8443")
	appender := r.db.Appender(ctx)
	add := func(series labels.Labels, value float64) error {
		b := labels.NewBuilder(series)
		own.Range(func(l labels.Label) {
			if theirs := series.Get(l.Name); theirs != "" {
				b.Set("exported_"+l.Name, theirs)
			}
			b.Set(l.Name, l.Value)
		})
		_, err := appender.Append(0, b.Labels(), at, value)
		return err
	}
	err := add(labels.FromStrings(model.MetricNameLabel, "up"), 1)
	parser := textparse.NewPromParser(metrics, labels.NewSymbolTable(), false)
	for err == nil {
		var entry textparse.Entry
		if entry, err = parser.Next(); err == nil && entry == textparse.EntrySeries {
			var series labels.Labels
			parser.Labels(&series)
			_, _, value := parser.Series()
			err = add(series, value)
		}
	}
	if !errors.Is(err, io.EOF) {
		return errors.Join(err, appender.Rollback())
	}
	return appender.Commit()
}

// query evaluates an expression for each step. It is an error if that gives nothing that can be drawn.
func (r *recording) query(ctx context.Context, expr string) (promql.Matrix, error) {
	query, err := r.engine.NewRangeQuery(ctx, r.db, nil, expr, r.start, r.end, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	matrix, err := query.Exec(ctx).Matrix()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	for _, series := range matrix {
		for _, point := range series.Floats {
			if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
				return matrix, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: %w for it", expr, errEmpty)
}

func (r *recording) close() error {
	var err error
	if r.db != nil {
		err = r.db.Close()
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}
