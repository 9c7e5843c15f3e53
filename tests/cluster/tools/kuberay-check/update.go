package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
)

// firstUpdate compares a stored object with what the operator writes back when it adds its finalizer: the same object
// through its Go type. Whatever differs then belongs to the operator, and the next server-side apply of the same
// manifest ends in a conflict: Helm 4 upgrades, Flux and Argo CD apply in that way.
func firstUpdate(result *report, schema *crdSchema, stored []byte, object any) error {
	written, err := json.Marshal(object)
	if err != nil {
		return err
	}
	// Once more with the CRD's defaults, as the API server stores it; its schema has judged the document already.
	if written, err = schema.check(&report{}, written); err != nil {
		return err
	}
	var before, after struct {
		Spec any `json:"spec"`
	}
	if err := json.Unmarshal(stored, &before); err != nil {
		return err
	}
	if err := json.Unmarshal(written, &after); err != nil {
		return err
	}
	for _, difference := range differences("spec", before.Spec, after.Spec) {
		result.add("update", fmt.Errorf("the operator's first update changes %s", difference))
	}
	return nil
}

// differences names every place at which two decoded JSON values differ.
func differences(path string, before, after any) []string {
	switch old := before.(type) {
	case map[string]any:
		if changed, ok := after.(map[string]any); ok {
			return mapDifferences(path, old, changed)
		}
	case []any:
		if changed, ok := after.([]any); ok && len(changed) == len(old) {
			var found []string
			for i := range old {
				found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), old[i], changed[i])...)
			}
			return found
		}
	}
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s becomes %s", path, text(before), text(after))}
}

func mapDifferences(path string, before, after map[string]any) []string {
	keys := map[string]bool{}
	for key := range before {
		keys[key] = true
	}
	for key := range after {
		keys[key] = true
	}
	sorted := make([]string, 0, len(keys))
	for key := range keys {
		sorted = append(sorted, key)
	}
	sort.Strings(sorted)
	var found []string
	for _, key := range sorted {
		old, had := before[key]
		changed, has := after[key]
		place := path + "." + key
		switch {
		case !had:
			found = append(found, fmt.Sprintf("%s: nothing becomes %s", place, text(changed)))
		case !has:
			found = append(found, fmt.Sprintf("%s: %s becomes nothing", place, text(old)))
		default:
			found = append(found, differences(place, old, changed)...)
		}
	}
	return found
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(encoded)
}
