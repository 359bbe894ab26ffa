package blueprint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"

	"quarry.storage/quarry/controller/internal/decide/stateful/history"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// revision is a digest of the template as the user wrote it: what a newer version of this program understands of it changes nothing.
func revision(t *v1alpha1.PodTemplate) string {
	sum := sha256.Sum256([]byte(text(t)))
	return hex.EncodeToString(sum[:5])
}

// text is the same for templates that are equal.
func text(t *v1alpha1.PodTemplate) string {
	var spec any
	if err := json.Unmarshal(t.Spec.Raw, &spec); err != nil {
		spec = string(t.Spec.Raw)
	}
	// Maps are written in the order of their keys. What was just read can be written.
	out, _ := json.Marshal(map[string]any{"metadata": t.Metadata, "spec": spec})
	return string(out)
}

// remembered is the data of a ControllerRevision, as with a StatefulSet: what the template was.
type remembered struct {
	Spec struct {
		Template *v1alpha1.PodTemplate `json:"template"`
	} `json:"spec"`
}

// Remember returns what a ControllerRevision holds of the template.
func (b *Blueprint) Remember() runtime.RawExtension {
	return runtime.RawExtension{Raw: []byte(`{"spec":{"template":` + text(&b.owner.Spec.Template) + `}}`)}
}

// Recall reads what a ControllerRevision holds. Both are empty where it holds no template.
func Recall(data runtime.RawExtension) (hash, template string) {
	var r remembered
	if err := json.Unmarshal(data.Raw, &r); err != nil || r.Spec.Template == nil {
		return "", ""
	}
	return revision(r.Spec.Template), text(r.Spec.Template)
}

// History is what is to be remembered of the template; the objects and the hashes of replicas are still to be added.
func (b *Blueprint) History() history.Input {
	in := history.Input{Owner: b.owner.Name, Hash: b.Revision, Template: text(&b.owner.Spec.Template), Limit: history.DefaultLimit}
	if n := b.owner.Spec.RevisionHistoryLimit; n != nil {
		in.Limit = int(*n)
	}
	return in
}
