package sharedvolume

import (
	"fmt"
	"regexp"
	"strings"
)

// Variables of a directory template.
const (
	VariableNamespace = "${pvc.namespace}"
	VariableClaim     = "${pvc.name}"
	VariableVolume    = "${pv.name}"
)

// DefaultTemplate is the template of an Nfs without one: each volume has a directory of its own name at the root of the share.
const DefaultTemplate = VariableVolume

// Values stand for the variables of a template.
type Values struct {
	// Namespace and Claim name the PersistentVolumeClaim.
	Namespace, Claim string
	// Volume is the name of the PersistentVolume.
	Volume string
}

// valueForm is a name of Kubernetes. A value never adds a component to a directory.
var valueForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// ExpandTemplate makes the directory of a volume, and refuses a template that has an unknown variable or makes no safe directory. An empty
// template is DefaultTemplate. Values are looked at only where the template names them.
func ExpandTemplate(template string, values Values) (string, error) {
	if template == "" {
		template = DefaultTemplate
	}
	var out strings.Builder
	for rest := template; rest != ""; {
		literal, _, found := strings.Cut(rest, "$")
		out.WriteString(literal)
		rest = rest[len(literal):]
		if !found {
			break
		}
		variable, value, err := variable(rest, values)
		if err != nil {
			return "", fmt.Errorf("directory template %.300q: %w", template, err)
		}
		if !valueForm.MatchString(value) {
			return "", fmt.Errorf("directory template %.300q: %s is %.100q, which is not a name: %w", template, variable, value, ErrInvalid)
		}
		out.WriteString(value)
		rest = rest[len(variable):]
	}
	directory := out.String()
	if err := CheckDirectory(directory); err != nil {
		return "", fmt.Errorf("directory template %.300q: %w", template, err)
	}
	return directory, nil
}

// variable finds the variable at the beginning of a text that begins with a dollar sign.
func variable(text string, values Values) (name, value string, err error) {
	for _, v := range []struct{ name, value string }{
		{VariableNamespace, values.Namespace}, {VariableClaim, values.Claim}, {VariableVolume, values.Volume},
	} {
		if strings.HasPrefix(text, v.name) {
			return v.name, v.value, nil
		}
	}
	shown, _, _ := strings.Cut(text, "}")
	return "", "", fmt.Errorf("%.50q is not one of %s, %s, %s: %w", shown, VariableNamespace, VariableClaim, VariableVolume, ErrInvalid)
}
