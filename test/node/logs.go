package node

import (
	"bytes"
	"io"
	"sync"
)

// output lets all containers print to one writer, by lines.
type output struct {
	mu sync.Mutex
	to io.Writer
}

func (o *output) line(prefix string, text []byte) {
	if o.to == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	// What goes wrong here must not stop a container.
	_, _ = o.to.Write(append([]byte("["+prefix+"] "), text...))
}

// log collects what the containers of a Pod print, over all restarts.
type log struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// printer is the standard output and the standard error of one run of a container.
type printer struct {
	log    *log
	out    *output
	prefix string
	mu     sync.Mutex
	line   []byte
}

// Write passes all on to the log and, line by line, to the output.
func (p *printer) Write(data []byte) (int, error) {
	p.log.mu.Lock()
	p.log.data.Write(data)
	p.log.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, data...)
	for {
		end := bytes.IndexByte(p.line, '\n') + 1
		if end == 0 {
			return len(data), nil
		}
		p.out.line(p.prefix, p.line[:end])
		p.line = p.line[end:]
	}
}

// flush prints a last line that has no end.
func (p *printer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) > 0 {
		p.out.line(p.prefix, append(p.line, '\n'))
		p.line = nil
	}
}
