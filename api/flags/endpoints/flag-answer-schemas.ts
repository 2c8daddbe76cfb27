import { buildRemoteConfig, SUPPORTED_COMPRESSION } from '../../../engines/flags/remote-config.ts'
import { boolean, object, optional, partial, string } from '../../http/json-schema.ts'

type Schema = Record<string, unknown>

/**
 * Requests and answers of `/decide` and `/flags`, for the OpenAPI document only: bodies come in too many encodings to
 * be checked by a schema, and answers are concatenated from JSON that was rendered before.
 */
export function describeFlagEndpoint (endpoint: 'decide' | 'flags'): Schema {
  return {
    querystring: optional({
      v: {
        type: 'string',
        description: endpoint === 'decide'
          ? 'Version of the answer, 1 to 4. Default: 1.'
          : 'Version of the answer, 1 or 2. Default: 1 if config is given; otherwise 2, and the answer includes the remote configuration.'
      },
      ...(endpoint === 'flags'
        ? { config: { type: 'string', enum: ['true', '1', 'false', '0'], description: 'true or 1: add the remote configuration.' } }
        : {})
    }),
    body: requestSchema,
    response: {
      200: {
        description: 'The flags, in the requested version.',
        oneOf: endpoint === 'decide' ? [decideV1, decideV2, decideV3, decideV4] : [flagsV1, flagsV2]
      }
    }
  }
}

const anyObject = { type: 'object', additionalProperties: true }

const requestSchema = partial({
  api_key: { ...string, description: 'Project API key; also accepted as token. A personal key needs project_id.' },
  distinct_id: { ...string, description: 'Distinct id of the user.' },
  project_id: { type: 'integer', description: 'Id of the project; with a personal key only.' },
  groups: { type: 'object', additionalProperties: string, description: 'Group key by group type.' },
  person_properties: { ...anyObject, description: 'Properties that override the stored ones of the person.' },
  group_properties: { type: 'object', additionalProperties: anyObject, description: 'Properties that override the stored ones of the groups, by group type.' },
  $anon_distinct_id: { ...string, description: 'Anonymous distinct id from before identification.' },
  flag_keys_to_evaluate: { type: 'array', items: string, description: 'Keys of the flags to answer. Default: all.' }
}, 'api_key', 'distinct_id')

const failures = {
  errorComputingFlags: { ...boolean, description: 'true if some flags could not be computed; they are omitted or marked as failed.' },
  errorsWhileComputingFlags: { ...boolean, description: 'The same, under the name that SDKs read.' }
}

const keysOfFlags = { type: 'array', items: string, description: 'Keys of the flags that are on.' }
const mapOfFlags = { type: 'object', additionalProperties: { type: ['boolean', 'string'] } }
const payloads = { type: 'object', additionalProperties: true, description: 'Payload by flag key, as stored in the flag.' }

const legacyFlags = {
  featureFlags: { ...mapOfFlags, description: 'Value by flag key: false, true or the variant.' },
  featureFlagPayloads: payloads,
  ...failures
}

const detailedFlags = {
  flags: {
    type: 'object',
    description: 'By flag key.',
    additionalProperties: closed('Flag', {
      key: string,
      enabled: boolean,
      variant: { type: ['string', 'null'] },
      reason: closed('Reason', { code: string, condition_index: { type: ['integer', 'null'] }, description: { type: ['string', 'null'] } }),
      metadata: closed('Metadata', {
        id: { type: 'integer' }, version: { type: 'integer' }, description: { type: ['string', 'null'] }, has_experiment: boolean
      }, { payload: { ...string, description: 'JSON text.' } })
    }, { failed: { ...boolean, description: 'true if the flag could not be computed; clients keep their previous value.' } })
  },
  ...failures,
  requestId: { type: 'string', format: 'uuid' },
  evaluatedAt: { type: 'integer', description: 'Unix milliseconds.' }
}

const decideFields = {
  config: object({ enable_collect_everything: boolean }),
  editorParams: anyObject,
  isAuthenticated: boolean,
  supportedCompression: { type: 'array', items: { type: 'string', enum: SUPPORTED_COMPRESSION } },
  toolbarParams: anyObject,
  sessionRecording: boolean
}

const remoteConfig = Object.fromEntries(Object.keys(buildRemoteConfig('')).map((name) => [name, {}]))

const decideV1 = closed('Version 1', { ...decideFields, featureFlags: keysOfFlags }, failures)
const decideV2 = closed('Version 2', {
  ...decideFields, featureFlags: { ...mapOfFlags, description: 'The flags that are on: true or the variant.' }
}, failures)
const decideV3 = closed('Version 3', { ...decideFields, ...legacyFlags, requestId: { type: 'string', format: 'uuid' } })
const decideV4 = closed('Version 4', { ...decideFields, ...detailedFlags }, remoteConfig)
const flagsV1 = closed('Version 1', {
  ...legacyFlags, requestId: detailedFlags.requestId, evaluatedAt: detailedFlags.evaluatedAt
}, remoteConfig)
const flagsV2 = closed('Version 2', detailedFlags, remoteConfig)

/** An object with the required fields, the optional ones, and no others. */
function closed (title: string, required: Schema, optional: Schema = {}): Schema {
  return {
    title,
    type: 'object',
    required: Object.keys(required),
    additionalProperties: false,
    properties: { ...optional, ...required }
  }
}
