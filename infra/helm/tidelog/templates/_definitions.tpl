{{- /* Made by infra/helm/chart.py from infra/kubernetes: change it there. */ -}}
{{- /* The text of a variable, a label or an annotation. Arguments: its name among the values, its value.
       Helm takes a number from a file for a float and shows 130000000 as 1.3e+08; JSON shows all digits. */ -}}
{{- define "tidelog.text" -}}
{{- $value := index . 1 -}}
{{- if kindIs "bool" $value -}}
{{- $words := ternary "on, yes and true" "off, no and false" $value -}}
{{- fail (printf "%s: without quotes %s are one value in YAML. Write the one that is meant in quotes" (index . 0) $words) -}}
{{- else if kindIs "string" $value -}}
{{- $value -}}
{{- else -}}
{{- toJson $value -}}
{{- end -}}
{{- end -}}

{{- /* Names with texts, each name once: the chart's, and over them the user's. Arguments: the name of the user's among the values,
       the chart's texts, the user's values. */ -}}
{{- define "tidelog.merged" -}}
{{- $group := index . 0 -}}
{{- $texts := index . 1 -}}
{{- range $name, $value := index . 2 -}}
{{- $_ := set $texts $name (include "tidelog.text" (list (printf "%s.%s" $group $name) $value)) -}}
{{- end -}}
{{- toYaml $texts -}}
{{- end -}}

{{- /* Fields of a pod that its values give, under the fields' own names. Arguments: images, the pod's values. */ -}}
{{- define "tidelog.placement" -}}
{{- $images := index . 0 -}}
{{- $pod := index . 1 -}}
{{- $fields := dict -}}
{{- range $name := list "affinity" "nodeSelector" "priorityClassName" "tolerations" -}}
{{- with get $pod $name -}}{{- $_ := set $fields $name . -}}{{- end -}}
{{- end -}}
{{- with $images.pullSecrets -}}{{- $_ := set $fields "imagePullSecrets" . -}}{{- end -}}
{{- if $fields -}}{{- toYaml $fields -}}{{- end -}}
{{- end -}}

{{- /* Nothing, unless values contradict each other: then the reason, and no objects. */ -}}
{{- define "tidelog.check" -}}
{{- $_ := required "store.TIDELOG_STORE is not set. Name your bucket: --set store.TIDELOG_STORE=s3://BUCKET/PREFIX" .Values.store.TIDELOG_STORE -}}
{{- if and .Values.auth.enabled (not .Values.tls.enabled) -}}
{{- fail "auth.enabled needs tls.enabled, since clients send a token over TLS alone. Without TLS set auth.enabled to false, too: whoever reaches a gateway may then do everything" -}}
{{- end -}}
{{- if gt (int64 .Values.gateway.replicasMin) (int64 .Values.gateway.replicasMax) -}}
{{- fail "gateway.replicasMin is more than gateway.replicasMax: Kubernetes would refuse the autoscaler after it has taken all else, and one gateway would run" -}}
{{- end -}}
{{- $instead := dict "GATEWAY_KAFKA_PORT" "is kafka.enabled here" -}}
{{- $_ := set $instead "TIDELOG_AUTH" "is auth.enabled here" -}}
{{- $_ := set $instead "TIDELOG_KAFKA_LISTEN" "is kafka.enabled here, and the port is 9092" -}}
{{- $_ := set $instead "TIDELOG_OPS_PORT" "is 8081 here, which probes and network policies name" -}}
{{- $_ := set $instead "TIDELOG_PORT" "is 8080 here, which the Service and network policies name" -}}
{{- $_ := set $instead "TIDELOG_STORE" "is for maintenance, too: set store.TIDELOG_STORE" -}}
{{- if not .Values.tls.enabled -}}
{{- $_ := set $instead "TIDELOG_TLS_CERT" "needs tls.enabled" -}}
{{- $_ := set $instead "TIDELOG_TLS_KEY" "needs tls.enabled" -}}
{{- end -}}
{{- $settings := .Values.gateway.settings -}}
{{- range $name, $why := $instead -}}
{{- if hasKey $settings $name -}}{{- fail (printf "gateway.settings.%s can't be set: it %s" $name $why) -}}{{- end -}}
{{- end -}}
{{- $secrets := dict "AWS_SECRET_ACCESS_KEY" "tidelog-store" "AWS_SESSION_TOKEN" "tidelog-store" -}}
{{- $_ := set $secrets "GATEWAY_BOOTSTRAP_TOKEN" "tidelog-access" -}}
{{- $_ := set $secrets "GATEWAY_CLUSTER_KEY" "tidelog-access" -}}
{{- $_ := set $secrets "GATEWAY_TLS_PEM" "tidelog-tls" -}}
{{- $store := .Values.store -}}
{{- range $name, $secret := $secrets -}}
{{- if or (hasKey $store $name) (hasKey $settings $name) -}}
{{- fail (printf "%s can't be a value: Helm keeps values, and whoever may see objects reads a variable's text. Put it into the secret %s" $name $secret) -}}
{{- end -}}
{{- end -}}
{{- $own := include "tidelog.gateway.environment" . | fromYaml -}}
{{- range $name, $_ := .Values.store -}}
{{- if or (hasKey $own $name) (hasKey $settings $name) -}}
{{- fail (printf "store.%s would be hidden from gateways, which have their own value for it. Set gateway.settings.%s" $name $name) -}}
{{- end -}}
{{- end -}}
{{- $label := "app.kubernetes.io/name" -}}
{{- if or (hasKey .Values.gateway.podLabels $label) (hasKey .Values.maintenance.podLabels $label) -}}
{{- fail (printf "podLabels can't have %s: the Service, the Deployments and the network policies select pods by it" $label) -}}
{{- end -}}
{{- end -}}
