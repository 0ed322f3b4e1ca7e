//go:build tools

// Package programs names what is built as it is.
package programs

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "sigs.k8s.io/kube-network-policies/cmd"
)
