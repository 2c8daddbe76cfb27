/** A file of this folder and the title of a test in it, or why a case concerns a client alone. */
export type ShownBy = readonly [file: string, title: string] | { onlyClient: string }

/**
 * Every public case of `PostHog/posthog-sdk-test-harness` (commit 16a62da), by suite and group. The harness judges what
 * an SDK sends; each case is a duty of the server that receives it, shown by a test against the whole system. A case
 * that judges a client alone says why. `docs/reference/pages.test.ts` looks up each title and counts the cases.
 */
export const HARNESS_CASES: Record<string, Record<string, Record<string, ShownBy>>> = {
  Capture: {
    format_validation: {
      event_has_required_fields: ['capture-v0.system.test.ts', 'name and distinct id are taken from beside the properties'],
      event_has_required_fields_client: ['capture-v0.system.test.ts', 'the distinct id is taken from among the properties, where pages have it'],
      event_has_uuid: ['capture-v0.system.test.ts', 'an event is stored under the uuid that it brings'],
      event_has_lib_properties: ['capture-v0.system.test.ts', 'name and version of the SDK are stored with the event'],
      distinct_id_is_string: ['capture-v0.system.test.ts', 'a distinct id that is a number is stored as its text'],
      distinct_id_is_string_client: ['capture-v0.system.test.ts', 'a number as distinct id of a page is stored as its text'],
      token_is_present: ['capture-v0.system.test.ts', 'the key of a batch says whose its events are, and one that nobody has is 401'],
      token_is_present_client: ['capture-v0.system.test.ts', 'the key of a page is taken from its events, and one that nobody has is 401'],
      custom_properties_preserved: ['capture-v0.system.test.ts', 'properties of every shape are stored as they were sent'],
      event_has_timestamp: ['capture-v0.system.test.ts', 'an event has the time that it brings'],
      non_utc_event_timestamp_is_converted_to_utc: ['capture-v0.system.test.ts', 'a time of another zone is stored as its instant']
    },
    retry_behavior: {
      retries_on_503: ['capture-v0.system.test.ts', 'events that posthog-node sends again because a proxy said 503 are stored once'],
      does_not_retry_on_400: ['capture-v0.system.test.ts', 'a body that nobody can read is 400 for good'],
      does_not_retry_on_401: ['capture-v0.system.test.ts', 'an unknown key is 401 for good'],
      respects_retry_after_header: ['capture-v0.system.test.ts', 'events that cannot be stored or exceed a limit are refused with the seconds to wait'],
      implements_backoff: { onlyClient: 'how long a client waits between its tries' },
      retries_on_500: ['capture-v0.system.test.ts', 'events that posthog-node sends again because a proxy said 500 are stored once'],
      retries_on_502: ['capture-v0.system.test.ts', 'events that posthog-node sends again because a proxy said 502 are stored once'],
      retries_on_504: ['capture-v0.system.test.ts', 'events that posthog-node sends again because a proxy said 504 are stored once'],
      max_retries_respected: ['capture-v0.system.test.ts', 'events that posthog-node gave up after its last try are stored once, when they arrived']
    },
    deduplication: {
      generates_unique_uuids: ['capture-v0.system.test.ts', 'events with distinct uuids are each stored'],
      preserves_uuid_on_retry: ['capture-v0.system.test.ts', 'an event that comes again with its uuid is stored once'],
      preserves_uuid_and_timestamp_on_retry: ['capture-v0.system.test.ts', 'an event that comes again keeps the time of its first try'],
      preserves_uuid_and_timestamp_on_batch_retry: ['capture-v0.system.test.ts', 'a batch that comes again is stored once, each event with its uuid and time'],
      no_duplicate_events_in_batch: ['capture-v0.system.test.ts', 'a uuid that is in a batch twice is stored once'],
      different_events_have_different_uuids: ['capture-v0.system.test.ts', 'events that are alike in all but the uuid are each stored']
    },
    compression: {
      sends_gzip_when_enabled: ['capture-v0.system.test.ts', 'a gzip body is read, declared by its header, by the query, or not at all']
    },
    batch_format: {
      uses_proper_batch_structure: ['capture-v0.system.test.ts', 'a batch keeps its good events without the bad one between them'],
      flush_with_no_events_sends_nothing: ['capture-v0.system.test.ts', 'a batch without events is answered, and nothing stored'],
      multiple_events_batched_together: ['capture-v0.system.test.ts', 'as many events as one batch has are stored, in their order']
    },
    error_handling: {
      does_not_retry_on_403: ['capture-v0.system.test.ts', 'a personal key that may not capture is 403 for good'],
      does_not_retry_on_413: ['capture-v0.system.test.ts', 'a body above 20 MB is 413 for good'],
      retries_on_408: ['capture-v0.system.test.ts', 'events that posthog-node sends again because a proxy said 408 are stored once']
    }
  },
  'Capture V1': {
    endpoint_and_method: {
      targets_v1_endpoint: ['capture-v1-requests.system.test.ts', 'V1: an event is taken by POST at its path, with and without a slash'],
      does_not_use_legacy_endpoints: ['capture-v1-requests.system.test.ts', 'V1: its body is refused at the older paths, where the key would be in it']
    },
    required_headers: {
      has_authorization_bearer_header: ['capture-v1-requests.system.test.ts', 'V1: the key is taken from the header, and without one nothing is stored'],
      has_content_type_json: ['capture-v1-requests.system.test.ts', 'V1: a body of JSON is answered with JSON'],
      has_posthog_sdk_info_format: ['capture-v1-requests.system.test.ts', 'V1: name and version of the SDK are taken from the header'],
      has_posthog_attempt_header: ['capture-v1-requests.system.test.ts', 'V1: a request is taken whatever attempt it says to be, or none'],
      has_posthog_request_id: ['capture-v1-requests.system.test.ts', 'V1: the id of a request is echoed, cut when it is long'],
      has_posthog_request_timestamp: ['capture-v1-requests.system.test.ts', 'V1: the time of a request corrects the clock of its events, and one that is not a valid time is 400'],
      has_user_agent: ['capture-v1-requests.system.test.ts', 'V1: the user agent tells visitors without cookies apart']
    },
    body_format: {
      body_has_created_at_and_batch: ['capture-v1-requests.system.test.ts', 'V1: a batch is taken with the time of its making, and an empty one is 400'],
      no_api_key_in_body: ['capture-v1-requests.system.test.ts', 'V1: a key in the body does not stand for the one in the header'],
      no_sent_at_in_body: ['capture-v1-requests.system.test.ts', 'V1: a time of sending in the body corrects nothing']
    },
    event_format: {
      event_has_required_root_fields: ['capture-v1-requests.system.test.ts', 'V1, one event: name, uuid, distinct id and time are stored'],
      event_uuid_is_valid: ['capture-v1-requests.system.test.ts', 'V1, one event: the uuid is stored as it came'],
      event_timestamp_is_rfc3339: ['capture-v1-requests.system.test.ts', 'V1, one event: the time is stored to the millisecond'],
      non_utc_event_timestamp_is_converted_to_utc: ['capture-v1-requests.system.test.ts', 'V1: a time of another zone is stored as its instant'],
      distinct_id_is_string: ['capture-v1-requests.system.test.ts', 'V1, one event: the distinct id is stored as it came'],
      distinct_id_at_root_not_properties: ['capture-v1-requests.system.test.ts', 'V1, one event: a distinct id among the properties does not count'],
      custom_properties_preserved: ['capture-v1-requests.system.test.ts', 'V1, one event: properties of every shape are stored as they were sent'],
      set_properties_preserved: ['capture-v1-requests.system.test.ts', 'V1, one event: $set is stored as an object'],
      set_once_properties_preserved: ['capture-v1-requests.system.test.ts', 'V1, one event: $set_once is stored as an object'],
      groups_properties_preserved: ['capture-v1-requests.system.test.ts', 'V1, one event: $groups is stored as an object, and as the groups of the event'],
      sdk_generates_uuid_if_not_provided: ['capture-v1-requests.system.test.ts', 'V1, one event: without a uuid it cannot be answered, and nothing is stored'],
      event_has_required_root_fields_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: name, uuid, distinct id and time are stored'],
      event_uuid_is_valid_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: the uuid is stored as it came'],
      event_timestamp_is_rfc3339_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: the time is stored to the millisecond'],
      distinct_id_is_string_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: the distinct id is stored as it came'],
      distinct_id_at_root_not_properties_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: a distinct id among the properties does not count'],
      custom_properties_preserved_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: properties of every shape are stored as they were sent'],
      set_properties_preserved_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: $set is stored as an object'],
      set_once_properties_preserved_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: $set_once is stored as an object'],
      groups_properties_preserved_batch: ['capture-v1-requests.system.test.ts', 'V1, each event of a batch: $groups is stored as an object, and as the groups of the event'],
      sdk_generates_uuid_if_not_provided_batch: ['capture-v1-requests.system.test.ts', 'V1, an event of a batch: without a uuid it cannot be answered, and nothing is stored']
    },
    batch_behavior: {
      multiple_events_in_single_batch: ['capture-v1-answers.system.test.ts', 'V1: several events of a batch are each answered and stored'],
      batch_envelope_smoke: ['capture-v1-answers.system.test.ts', 'V1: a batch is refused as one without a good key, however many events it has'],
      flush_with_no_events_sends_nothing: ['capture-v1-answers.system.test.ts', 'V1: a batch without events is refused, and nothing stored'],
      flush_at_triggers_batch: ['capture-v1-answers.system.test.ts', 'V1: batches that posthog-node sends one after the other are each stored'],
      created_at_reflects_batch_creation_time: ['capture-v1-answers.system.test.ts', 'V1: the time at which a batch was made changes no time of an event']
    },
    deduplication: {
      generates_unique_uuids: ['capture-v1-answers.system.test.ts', 'V1: events with distinct uuids are each stored'],
      different_events_same_content_different_uuids: ['capture-v1-answers.system.test.ts', 'V1: events that are alike in all but the uuid are each stored'],
      preserves_uuid_on_retry: ['capture-v1-answers.system.test.ts', 'V1: an event that comes again with its uuid is answered ok and stored once'],
      preserves_timestamp_on_retry: ['capture-v1-answers.system.test.ts', 'V1: an event that comes again keeps its time, whatever the time of the attempt'],
      preserves_uuid_and_timestamp_on_batch_retry: ['capture-v1-answers.system.test.ts', 'V1: a batch that comes again is stored once, each event with its uuid and time'],
      no_duplicate_events_in_batch: ['capture-v1-answers.system.test.ts', 'V1: a batch with a uuid twice cannot be answered by uuid, and is refused']
    },
    header_behavior_on_retry: {
      attempt_header_starts_at_one: ['capture-v1-answers.system.test.ts', 'V1: the first attempt of posthog-node is attempt 1, and stored'],
      attempt_header_increments_on_retry: ['capture-v1-answers.system.test.ts', 'V1: three attempts of posthog-node are stored once'],
      request_id_preserved_on_retry: ['capture-v1-answers.system.test.ts', 'V1: each attempt is answered with the id of its request'],
      different_requests_have_different_request_ids: ['capture-v1-answers.system.test.ts', 'V1: requests at the same time are each answered with their own id'],
      request_timestamp_changes_on_retry: ['capture-v1-answers.system.test.ts', 'V1: the clock is corrected by the time of the attempt that arrived']
    },
    response_format_validation: {
      success_response_has_uuid_keyed_results: ['capture-v1-answers.system.test.ts', 'V1: an answer of 200 names each event by its uuid as it was sent'],
      success_response_has_ok_for_each_event: ['capture-v1-answers.system.test.ts', 'V1: a stored event is answered with ok'],
      success_no_retry_after_when_all_ok: ['capture-v1-answers.system.test.ts', 'V1: an answer with nothing to retry has no Retry-After'],
      success_retry_after_present_when_retry_events: ['capture-v1-partly-kept.system.test.ts', 'V1: an answer with an event to send again says when'],
      success_no_retry_after_when_drop_only: ['capture-v1-answers.system.test.ts', 'V1: an answer with dropped events alone has no Retry-After'],
      response_echoes_request_id: ['capture-v1-answers.system.test.ts', 'V1: the id of a request is in its answer, and pages may read it']
    },
    retry_behavior: {
      retries_on_408: ['capture-v1-answers.system.test.ts', 'V1: events that posthog-node sends again because a proxy said 408 are stored once'],
      retries_on_500: ['capture-v1-answers.system.test.ts', 'V1: events that posthog-node sends again because a proxy said 500 are stored once'],
      retries_on_503: ['capture-v1-answers.system.test.ts', 'V1: events that posthog-node sends again because a proxy said 503 are stored once'],
      retries_on_504: ['capture-v1-answers.system.test.ts', 'V1: events that posthog-node sends again because a proxy said 504 are stored once'],
      retryable_errors_have_retry_after: ['capture-v1-answers.system.test.ts', 'V1: events that cannot be stored or exceed a limit are refused with a retry time'],
      respects_retry_after_on_retryable_error: ['capture-v1-answers.system.test.ts', 'V1: the time to come back is in whole seconds, as clients read it'],
      does_not_retry_on_400: ['capture-v1-answers.system.test.ts', 'V1: a body that cannot be answered is 400 at each attempt'],
      does_not_retry_on_401: ['capture-v1-answers.system.test.ts', 'V1: an unknown key is 401 at each attempt'],
      does_not_retry_on_402: { onlyClient: '402 is about a bill, which Millrace does not have; it never answers so' },
      does_not_retry_on_413: ['capture-v1-answers.system.test.ts', 'V1: a body above 20 MB is 413 at each attempt'],
      does_not_retry_on_415: ['capture-v1-answers.system.test.ts', 'V1: a body in an encoding that nobody reads is 400 at each attempt'],
      non_retryable_errors_have_no_retry_after: ['capture-v1-answers.system.test.ts', 'V1: a refusal for good has no Retry-After'],
      implements_backoff: { onlyClient: 'how long a client waits between its tries' },
      max_retries_respected: ['capture-v1-answers.system.test.ts', 'V1: events that posthog-node gave up after its last try are stored once, when they arrived']
    },
    partial_batch_handling: {
      handles_200_full_success: ['capture-v1-answers.system.test.ts', 'V1: posthog-node sends nothing again when all is stored'],
      handles_200_with_all_ok: ['capture-v1-answers.system.test.ts', 'V1: each of many stored events is answered with ok, in a large body, too'],
      does_not_retry_dropped_events: ['capture-v1-answers.system.test.ts', 'V1: an event that was dropped is dropped again, with its reason, and never stored'],
      does_not_retry_limited_events: { onlyClient: '`limited` is about a bill, which Millrace does not have; it never answers so' },
      prunes_ok_events_on_partial_retry: ['capture-v1-partly-kept.system.test.ts', 'V1: of a batch that was partly kept, what was kept is answered ok and not sent again'],
      prunes_dropped_events_on_partial_retry: ['capture-v1-partly-kept.system.test.ts', 'V1: of a batch that was partly kept, what was dropped is not sent again'],
      retries_only_retry_events_from_partial: ['capture-v1-partly-kept.system.test.ts', 'V1: of a batch that was partly kept, what was lost comes again alone, and is kept'],
      partial_retry_preserves_uuids: ['capture-v1-partly-kept.system.test.ts', 'V1: of a batch that was partly kept, each event is stored once under its uuid'],
      partial_retry_attempt_header_increments: ['capture-v1-partly-kept.system.test.ts', 'V1: the second attempt of a batch that was partly kept is taken as attempt 2'],
      partial_retry_request_id_preserved: ['capture-v1-partly-kept.system.test.ts', 'V1: both attempts of a batch that was partly kept have one id'],
      respects_retry_after_on_partial: ['capture-v1-partly-kept.system.test.ts', 'V1: the answer about a batch that was partly kept says when to come back, the last one does not'],
      unknown_result_treated_as_terminal: ['capture-v1-answers.system.test.ts', 'V1: an event is answered with one of four words, and with no other'],
      mixed_ok_drop_limited_no_retry: ['capture-v1-answers.system.test.ts', 'V1: events that are ok and dropped in one batch leave nothing to send again']
    },
    compression: {
      sends_gzip_content_encoding: ['capture-v1-requests.system.test.ts', 'V1: a body in gzip is read'],
      sends_deflate_content_encoding: ['capture-v1-requests.system.test.ts', 'V1: a body in deflate is read'],
      sends_br_content_encoding: ['capture-v1-requests.system.test.ts', 'V1: a body in br is read'],
      sends_zstd_content_encoding: ['capture-v1-requests.system.test.ts', 'V1: a body in zstd is read'],
      no_content_encoding_when_disabled: ['capture-v1-requests.system.test.ts', 'V1: a body without encoding is read'],
      compressed_body_is_decompressible: ['capture-v1-requests.system.test.ts', 'V1: a body that is not what its encoding says is 400 for good']
    },
    error_handling: {
      does_not_retry_on_unknown_4xx: ['capture-v1-answers.system.test.ts', 'V1: a refusal of no special kind is JSON, too, and without Retry-After']
    },
    event_options: {
      cookieless_mode_override: ['capture-v1-requests.system.test.ts', 'V1: an event may say that its visitor has no cookies'],
      disable_skew_correction_override: ['capture-v1-requests.system.test.ts', 'V1: an event may say that its clock is right'],
      process_person_profile_override: ['capture-v1-requests.system.test.ts', 'V1: the option process_person_profile becomes the property that other SDKs send'],
      product_tour_id_override: ['capture-v1-requests.system.test.ts', 'V1: the option product_tour_id becomes the property that other SDKs send'],
      unset_options_omitted: ['capture-v1-requests.system.test.ts', 'V1: options that are left out add no properties'],
      options_override_in_batch: ['capture-v1-requests.system.test.ts', 'V1: each event of a batch has its own options']
    },
    geoip_and_historical_migration: {
      geoip_disable_injected_into_properties: ['capture-v1-requests.system.test.ts', 'V1: $geoip_disable is stored as it was sent'],
      historical_migration_set_in_body: ['capture-v1-requests.system.test.ts', 'V1: a batch that says to be an import is stored with the times of its events'],
      historical_migration_absent_by_default: ['capture-v1-requests.system.test.ts', 'V1: a batch that does not say so is stored with the times of its events']
    }
  },
  Flags: {
    request_payload: {
      request_with_person_properties_device_id: ['flags.system.test.ts', 'flags: properties of the person that a request brings decide, $device_id too'],
      flags_request_uses_v2_query_param: ['flags.system.test.ts', 'flags: version 2 of the answer has the details of each flag'],
      flags_request_hits_flags_path_not_decide: ['flags.system.test.ts', 'flags: all that posthog-node asks for is at /flags, nothing at /decide'],
      flags_request_omits_authorization_header: ['flags.system.test.ts', 'flags: the key in the body is enough, no header is asked for'],
      token_in_flags_body_matches_init: ['flags.system.test.ts', 'flags: the key of the body says whose flags, and one that nobody has is 401'],
      groups_round_trip: ['flags.system.test.ts', 'flags: groups and their properties in a request decide flags of groups'],
      groups_default_to_empty_object: ['flags.system.test.ts', 'flags: no groups, empty ones and null are the same'],
      disable_geoip_false_propagates_as_geoip_disable_false: ['flags.system.test.ts', 'flags: geoip_disable: false is taken, and changes no flag'],
      disable_geoip_omitted_defaults_to_false: ['flags.system.test.ts', 'flags: geoip_disable may be left out, and changes no flag'],
      flag_keys_to_evaluate_contains_only_requested_key: ['flags.system.test.ts', 'flags: of the flags that a request names, these alone are answered']
    },
    request_lifecycle: {
      no_flags_request_on_init_alone: ['flags.system.test.ts', 'flags: a client with a personal key gets definitions at its start, and evaluates them without another request'],
      no_flags_request_on_normal_capture: ['flags.system.test.ts', 'flags: an event is stored without a question about flags'],
      two_flag_calls_produce_two_remote_requests: ['flags.system.test.ts', 'flags: the same question twice has the same answer, under ids of its own'],
      mock_response_value_is_returned_to_caller: ['flags.system.test.ts', 'flags: value and payload that the server answers are those that posthog-node returns']
    },
    retry_behavior: {
      retries_flags_on_502: ['flags.system.test.ts', 'flags: a question that posthog-node repeats because a proxy said 502 is answered'],
      retries_flags_on_504: ['flags.system.test.ts', 'flags: a question that posthog-node repeats because a proxy said 504 is answered']
    },
    side_effect_events: {
      get_feature_flag_captures_feature_flag_called_event: ['flags.system.test.ts', 'flags: that a flag was asked for is stored once, with its key and value']
    }
  },
  'LLM events': {
    routing: {
      capture_ai_posts_to_ai_endpoint: ['capture-v0.system.test.ts', 'events of language models are stored by their own path'],
      capture_does_not_reroute_ai_named_events: ['capture-v0.system.test.ts', 'events of language models among others are stored by the path of these']
    },
    identity: {
      capture_ai_event_has_uuid: ['capture-v0.system.test.ts', 'an event of a language model without uuid gets one'],
      capture_ai_keeps_supplied_uuid: ['capture-v0.system.test.ts', 'an event of a language model keeps its uuid']
    },
    timestamp_format: {
      non_utc_event_timestamp_is_converted_to_utc: ['capture-v0.system.test.ts', 'the time of an event of a language model in another zone is stored as its instant']
    }
  }
}
