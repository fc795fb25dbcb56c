package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// settle writes an archive of Helm again with another time, which its files and the archive itself then have.
func settle(file string, when time.Time) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := rewrite(&out, bytes.NewReader(raw), when); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		return err
	}
	// "helm push" notes it in the manifest.
	return os.Chtimes(file, when, when)
}

func rewrite(to io.Writer, from io.Reader, when time.Time) error {
	compressed, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	zipper := gzip.NewWriter(to)
	// Helm writes these, so that what is served as an archive is not unpacked on the way.
	zipper.Extra, zipper.Comment = compressed.Extra, compressed.Comment
	reader, writer := tar.NewReader(compressed), tar.NewWriter(zipper)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return errors.Join(writer.Close(), zipper.Close())
		}
		if err != nil {
			return err
		}
		header.ModTime = when
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(writer, reader); err != nil {
			return err
		}
	}
}
