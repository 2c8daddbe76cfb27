/**
 * JSON schemas of what `deploy/` uses of Kubernetes and compose, and of nothing else: a name that is misspelt or in the
 * wrong place is refused, as the servers would. Written after the Kubernetes API reference (apps/v1, batch/v1, v1,
 * policy/v1, networking.k8s.io/v1 of 1.30) and the schema of the Compose Specification (`schema/compose-spec.json`).
 */
type Schema = Record<string, unknown>

const text: Schema = { type: 'string', minLength: 1 }
const count: Schema = { type: 'integer', minimum: 0 }
const flag: Schema = { type: 'boolean' }
const texts: Schema = { type: 'array', items: text, minItems: 1 }
const mapOfTexts: Schema = { type: 'object', additionalProperties: { type: 'string' } }
/** What the scheduler reads: `500m`, `2`, `8Gi`. */
const quantity: Schema = { type: 'string', pattern: '^\\d+(m|Mi|Gi)?$' }
/** Of an object: at most 63 characters of DNS. */
const name: Schema = { type: 'string', pattern: '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$' }
const port: Schema = { type: 'integer', minimum: 1, maximum: 65535 }

function object (properties: Record<string, Schema>, required: readonly string[] = []): Schema {
  return { type: 'object', properties, required, additionalProperties: false }
}

function list (items: Schema): Schema {
  return { type: 'array', items, minItems: 1 }
}

const expression = object({ key: text, operator: { enum: ['In', 'NotIn', 'Exists'] }, values: texts }, ['key', 'operator'])
const selector = object({ matchLabels: mapOfTexts, matchExpressions: list(expression) })
const metadata = object({ name, labels: mapOfTexts, annotations: mapOfTexts }, ['name'])
const reference = object({ name }, ['name'])
const resources = object({
  requests: object({ cpu: quantity, memory: quantity, storage: quantity }), limits: object({ memory: quantity })
})

const probe = object({
  httpGet: object({ path: { type: 'string', pattern: '^/' }, port: text }, ['path', 'port']),
  tcpSocket: object({ port: text }, ['port']),
  periodSeconds: count,
  timeoutSeconds: count,
  failureThreshold: count,
  initialDelaySeconds: count
})

const container = object({
  name,
  image: text,
  command: texts,
  args: texts,
  ports: list(object({ name, containerPort: port }, ['name', 'containerPort'])),
  env: list(object({
    name: text,
    value: text,
    valueFrom: object({ fieldRef: object({ fieldPath: { enum: ['metadata.name'] } }, ['fieldPath']) })
  }, ['name'])),
  envFrom: list(object({ secretRef: reference, configMapRef: reference })),
  lifecycle: object({ preStop: object({ exec: object({ command: texts }, ['command']), sleep: object({ seconds: count }, ['seconds']) }) }),
  startupProbe: probe,
  livenessProbe: probe,
  readinessProbe: probe,
  resources,
  securityContext: object({
    allowPrivilegeEscalation: flag, readOnlyRootFilesystem: flag, capabilities: object({ drop: texts })
  }),
  volumeMounts: list(object({ name, mountPath: { type: 'string', pattern: '^/' }, subPath: text, readOnly: flag }, ['name', 'mountPath']))
}, ['name', 'image'])

const podSpec = object({
  terminationGracePeriodSeconds: count,
  automountServiceAccountToken: flag,
  restartPolicy: { enum: ['OnFailure', 'Never', 'Always'] },
  securityContext: object({ runAsNonRoot: flag, runAsUser: count, runAsGroup: count, fsGroup: count }),
  affinity: object({
    podAntiAffinity: object({
      requiredDuringSchedulingIgnoredDuringExecution: list(object({ topologyKey: text, labelSelector: selector }, ['topologyKey', 'labelSelector']))
    })
  }),
  topologySpreadConstraints: list(object({
    maxSkew: count, topologyKey: text, whenUnsatisfiable: { enum: ['ScheduleAnyway', 'DoNotSchedule'] }, labelSelector: selector
  }, ['maxSkew', 'topologyKey', 'whenUnsatisfiable'])),
  initContainers: list(container),
  containers: list(container),
  volumes: list(object({
    name, emptyDir: object({ sizeLimit: quantity }), configMap: reference,
    persistentVolumeClaim: object({ claimName: name, readOnly: flag }, ['claimName'])
  }, ['name']))
}, ['containers'])

const template = object({ metadata: object({ labels: mapOfTexts, annotations: mapOfTexts }, ['labels']), spec: podSpec }, ['metadata', 'spec'])
const claim = object({
  metadata,
  spec: object({ accessModes: list({ enum: ['ReadWriteOnce'] }), resources }, ['accessModes', 'resources'])
}, ['metadata', 'spec'])
const peer = object({ podSelector: selector, namespaceSelector: selector })

function kind (apiVersion: string, kind: string, rest: Record<string, Schema>): Schema {
  return object({ apiVersion: { const: apiVersion }, kind: { const: kind }, metadata, ...rest }, ['apiVersion', 'kind', 'metadata', ...Object.keys(rest)])
}

/** By kind. */
export const KUBERNETES_SCHEMAS: Record<string, Schema> = {
  Namespace: kind('v1', 'Namespace', {}),
  ConfigMap: kind('v1', 'ConfigMap', { data: mapOfTexts }),
  Secret: kind('v1', 'Secret', { stringData: mapOfTexts }),
  Pod: kind('v1', 'Pod', { spec: podSpec }),
  Service: kind('v1', 'Service', {
    spec: object({
      clusterIP: { const: 'None' },
      publishNotReadyAddresses: flag,
      selector: mapOfTexts,
      ports: list(object({ name, port, targetPort: text }, ['name', 'port']))
    }, ['selector', 'ports'])
  }),
  Deployment: kind('apps/v1', 'Deployment', { spec: object({ replicas: count, selector, template }, ['selector', 'template']) }),
  StatefulSet: kind('apps/v1', 'StatefulSet', {
    spec: object({
      serviceName: name, replicas: count, podManagementPolicy: { enum: ['Parallel', 'OrderedReady'] }, selector, template, volumeClaimTemplates: list(claim)
    }, ['serviceName', 'selector', 'template'])
  }),
  Job: kind('batch/v1', 'Job', { spec: object({ backoffLimit: count, template }, ['template']) }),
  PodDisruptionBudget: kind('policy/v1', 'PodDisruptionBudget', { spec: object({ maxUnavailable: count, selector }, ['selector']) }),
  NetworkPolicy: kind('networking.k8s.io/v1', 'NetworkPolicy', {
    spec: object({
      podSelector: selector,
      policyTypes: list({ enum: ['Ingress', 'Egress'] }),
      ingress: list(object({ from: list(peer), ports: list(object({ port }, ['port'])) }))
    }, ['podSelector', 'policyTypes'])
  })
}

/** Durations of compose: `30s`. */
const duration: Schema = { type: 'string', pattern: '^\\d+(s|m)$' }
const logging = object({ driver: { enum: ['json-file', 'local'] }, options: mapOfTexts }, ['driver', 'options'])

/** A compose file, with the merge keys resolved. */
export const COMPOSE_SCHEMA: Schema = {
  type: 'object',
  patternProperties: { '^x-': {} },
  properties: {
    name,
    volumes: { type: 'object', additionalProperties: { type: 'null' } },
    services: {
      type: 'object',
      additionalProperties: object({
        image: text,
        build: object({ context: text, dockerfile: text, target: text }),
        restart: { enum: ['no', 'unless-stopped'] },
        stop_grace_period: duration,
        logging,
        command: texts,
        read_only: { const: true },
        cap_drop: texts,
        security_opt: texts,
        shm_size: text,
        env_file: list(object({ path: text, required: { const: false } }, ['path', 'required'])),
        profiles: texts,
        environment: { type: 'object', additionalProperties: { type: ['string', 'integer'] } },
        volumes: texts,
        ports: texts,
        ulimits: object({ nofile: count }),
        healthcheck: object({ test: texts, interval: duration, start_period: duration }, ['test']),
        depends_on: {
          type: 'object',
          additionalProperties: object({ condition: { enum: ['service_started', 'service_healthy', 'service_completed_successfully'] } }, ['condition'])
        }
      }, ['image', 'restart'])
    }
  },
  required: ['name', 'services'],
  additionalProperties: false
}
