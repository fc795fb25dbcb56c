package rancher

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// MarshalJSON writes every delay as Go writes it, under the name of its field with a small first
// letter: {"agentStart":"20ms"}.
func (t Timings) MarshalJSON() ([]byte, error) {
	out := map[string]string{}
	value := reflect.ValueOf(t)
	for i := range value.NumField() {
		out[timingName(value.Type().Field(i).Name)] = time.Duration(value.Field(i).Int()).String()
	}
	return json.Marshal(out)
}

// UnmarshalJSON changes the delays that are named and leaves the others as they are.
func (t *Timings) UnmarshalJSON(raw []byte) error {
	in := map[string]string{}
	if err := json.Unmarshal(raw, &in); err != nil {
		return fmt.Errorf("timings are an object of durations, such as {\"connect\":\"3s\"}: %w", err)
	}
	changed := *t
	value := reflect.ValueOf(&changed).Elem()
	for i := range value.NumField() {
		name := timingName(value.Type().Field(i).Name)
		text, ok := in[name]
		if !ok {
			continue
		}
		delay, err := time.ParseDuration(text)
		if err != nil || delay < 0 {
			return fmt.Errorf("timing %s: %q is no duration", name, text)
		}
		value.Field(i).SetInt(int64(delay))
		delete(in, name)
	}
	for name := range in {
		return fmt.Errorf("there is no timing %q", name)
	}
	*t = changed
	return nil
}

// timingName is the name of a field in JSON.
func timingName(field string) string {
	if field == "URL" {
		return "url"
	}
	return strings.ToLower(field[:1]) + field[1:]
}
