package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// errBodyClosed ends the reading of a watch that its client has ended.
var errBodyClosed = errors.New("the body was closed")

// maxFrame is far more than an object can have.
const maxFrame = 64 << 20

// counted counts the bytes that are read.
type counted struct {
	io.ReadCloser
	count func(int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.count(n)
	return n, err
}

// teed also gives what is read of a body to somebody else.
type teed struct {
	io.Reader
	body   io.Closer
	copied *io.PipeWriter
}

// Read implements io.Reader.
func (t teed) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err != nil {
		_ = t.copied.CloseWithError(io.EOF) // it returns no error
	}
	return n, err
}

// Close implements io.Closer.
func (t teed) Close() error {
	_ = t.copied.CloseWithError(errBodyClosed) // it returns no error
	return t.body.Close()
}

// decodeWatch calls a function for each event of a watch. Of the objects it reads metadata only.
func decodeWatch(contentType string, body io.Reader, found func(event string, object metav1.PartialObjectMetadata)) error {
	next := nextJSON(body)
	if strings.HasPrefix(contentType, runtime.ContentTypeProtobuf) {
		next = nextFrame(body)
	}
	for {
		event, err := next()
		if err != nil {
			return err
		}
		object := metav1.PartialObjectMetadata{}
		if err := decodeObject(event.Object.Raw, &object); err != nil {
			return err
		}
		found(event.Type, object)
	}
}

// decodeList calls a function for each item of a list.
func decodeList(contentType string, body io.Reader, found func(metav1.PartialObjectMetadata)) error {
	raw, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	list := metav1.PartialObjectMetadataList{}
	if strings.HasPrefix(contentType, runtime.ContentTypeProtobuf) {
		var inner []byte
		if inner, err = unwrap(raw); err == nil {
			err = list.Unmarshal(inner)
		}
	} else {
		err = json.Unmarshal(raw, &list)
	}
	for i := range list.Items {
		found(list.Items[i])
	}
	return err
}

func nextJSON(body io.Reader) func() (metav1.WatchEvent, error) {
	decoder := json.NewDecoder(body)
	return func() (event metav1.WatchEvent, err error) {
		err = decoder.Decode(&event)
		return event, err
	}
}

// nextFrame reads events that each begin with their length.
func nextFrame(body io.Reader) func() (metav1.WatchEvent, error) {
	return func() (event metav1.WatchEvent, err error) {
		var length uint32
		if err := binary.Read(body, binary.BigEndian, &length); err != nil {
			return event, err
		}
		if length > maxFrame {
			return event, fmt.Errorf("a frame of %d bytes", length)
		}
		frame := make([]byte, length)
		if _, err := io.ReadFull(body, frame); err != nil {
			return event, err
		}
		return event, event.Unmarshal(frame)
	}
}

// decodeObject reads JSON or protobuf. In both all kinds have their metadata in the same place.
func decodeObject(raw []byte, object *metav1.PartialObjectMetadata) error {
	if !bytes.HasPrefix(raw, protobufPrefix()) {
		return json.Unmarshal(raw, object)
	}
	inner, err := unwrap(raw)
	if err != nil {
		return err
	}
	return object.Unmarshal(inner)
}

// unwrap returns an object without what says its kind.
func unwrap(raw []byte) ([]byte, error) {
	wrapped, ok := bytes.CutPrefix(raw, protobufPrefix())
	if !ok {
		return nil, errors.New("protobuf without its prefix")
	}
	unknown := runtime.Unknown{}
	err := unknown.Unmarshal(wrapped)
	return unknown.Raw, err
}

func protobufPrefix() []byte { return []byte{'k', '8', 's', 0} }
