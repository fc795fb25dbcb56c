package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// dataLink is what the files of a volume are reached through: to lead it elsewhere replaces all of them at once.
// Programs that watch their files for changes know it by this name.
const dataLink = "..data"

// files is the content of a volume, by path.
type files map[string]file

type file struct {
	data string
	mode os.FileMode
}

// add puts the given items of data into f, all if there are none.
func (f files) add(data map[string][]byte, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	if len(items) == 0 {
		for key, value := range data {
			f[key] = file{data: string(value), mode: fileMode(nil, mode)}
		}
		return nil
	}
	for _, item := range items {
		value, found := data[item.Key]
		if !found {
			if is(optional) {
				continue
			}
			return fmt.Errorf("references non-existent key: %s", item.Key)
		}
		f[item.Path] = file{data: string(value), mode: fileMode(item.Mode, mode)}
	}
	return nil
}

func (f files) equal(other files) bool { return other != nil && maps.Equal(f, other) }

// write makes f the content of dir, in the way of the kubelet: the files are in a new directory to which a link is led,
// and what is in dir itself are links through that link.
func (f files) write(dir string) error {
	before, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	after, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return err
	}
	for path, each := range f {
		target := filepath.Join(after, path)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(each.data), each.mode); err != nil {
			return err
		}
	}
	temporary := filepath.Join(dir, dataLink+"_tmp")
	if err := os.Symlink(filepath.Base(after), temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if err := f.link(dir); err != nil {
		return err
	}
	if before == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, before))
}

// link makes dir show the files and nothing else.
func (f files) link(dir string) error {
	var tops []string
	for path := range f {
		top, _, _ := strings.Cut(path, "/")
		tops = append(tops, top)
		if err := os.Symlink(filepath.Join(dataLink, top), filepath.Join(dir, top)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		// Mounts below this one have made directories here, which are none of the volume's.
		if entry.Type()&os.ModeSymlink == 0 || entry.Name() == dataLink || slices.Contains(tops, entry.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func fileMode(own, standard *int32) os.FileMode {
	switch {
	case own != nil:
		return os.FileMode(*own) & os.ModePerm
	case standard != nil:
		return os.FileMode(*standard) & os.ModePerm
	default:
		return 0o644
	}
}
