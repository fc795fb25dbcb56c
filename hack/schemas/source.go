package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// source is a module with descriptions of kinds.
type source struct {
	modfile string
	module  string
	// files is a pattern below the module's directory.
	files string
	// convert adds the kinds that a file describes.
	convert func(raw []byte, into schemas) error

	// dir and version are known once the module was located.
	dir     string
	version string
}

// locate has Go download the module, unless its module cache has it.
func (s *source) locate(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "-modfile="+s.modfile, s.module)
	cmd.Stderr = os.Stderr
	raw, failure := cmd.Output()
	var answer struct{ Dir, Version, Error string }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return fmt.Errorf("downloading %s: %w", s.module, errors.Join(failure, err))
	}
	if answer.Error != "" {
		return fmt.Errorf("downloading %s: %s", s.module, answer.Error)
	}
	if failure != nil {
		return fmt.Errorf("downloading %s: %w", s.module, failure)
	}
	s.dir, s.version = answer.Dir, answer.Version
	return nil
}

func (s *source) read(into schemas) error {
	paths, err := filepath.Glob(filepath.Join(s.dir, filepath.FromSlash(s.files)))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("no %s in it", s.files)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := s.convert(raw, into); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	return nil
}
