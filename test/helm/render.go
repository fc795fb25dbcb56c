package helm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// rendererScript is what Helm runs as its post-renderer. It has this process do the work, over a loopback connection: the manifests, ended
// by NUL, which YAML cannot contain, are answered by a line, "ok" or something else, and the result or the reason.
const rendererScript = `#!/usr/bin/env bash
set -euo pipefail
exec 3<>/dev/tcp/%s/%s
{ cat; printf '\0'; } >&3
read -r answer <&3
[[ $answer == ok ]] || exec cat <&3 >&2
exec cat <&3
`

// withPostRenderer calls do with a program that Helm can use as a post-renderer.
func (h *Helm) withPostRenderer(render func([]unstructured.Unstructured) []unstructured.Unstructured, do func(program string) error) (err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed below
	if err != nil {
		return fmt.Errorf("listening for helm: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(listener, render) }()
	defer func() {
		// The function that renders must not be running any more when this returns.
		err = errors.Join(err, listener.Close(), <-served)
	}()

	dir, err := os.MkdirTemp(h.path("tmp"), "renderer-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	program := filepath.Join(dir, "post-renderer")
	if err := os.WriteFile(program, fmt.Appendf(nil, rendererScript, host, port), 0o700); err != nil {
		return err
	}
	return do(program)
}

// serve answers until the listener is closed.
func serve(listener net.Listener, render func([]unstructured.Unstructured) []unstructured.Unstructured) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		// Helm has one post-renderer at a time; a connection that breaks is its failure and Helm's to report.
		_ = answer(connection, render)
		_ = connection.Close()
	}
}

func answer(connection net.Conn, render func([]unstructured.Unstructured) []unstructured.Unstructured) error {
	raw, err := bufio.NewReader(connection).ReadBytes(0)
	if err != nil {
		return err
	}
	result, err := rerender(bytes.TrimSuffix(raw, []byte{0}), render)
	if err != nil {
		_, err = fmt.Fprintf(connection, "error\n%v\n", err)
		return err
	}
	_, err = connection.Write(append([]byte("ok\n"), result...))
	return err
}

func rerender(raw []byte, render func([]unstructured.Unstructured) []unstructured.Unstructured) ([]byte, error) {
	objects, err := parse(raw)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, object := range render(objects) {
		each, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("writing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		fmt.Fprintf(&out, "---\n%s", each)
	}
	return out.Bytes(), nil
}

// parse reads the objects of a manifest.
func parse(manifest []byte) ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading a manifest: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
