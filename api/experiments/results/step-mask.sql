-- Which steps an event is: bit 0 for the first one, and so on. A step is an event name (empty: any that is no exposure
-- to a flag, which SDKs send by themselves) and conditions on properties, which come as columns of one table: the step
-- they belong to, key, operator, wanted values, pattern. The operators have the meaning of those of feature flags:
-- `conditions-like-flags.test.ts`.
arraySum(arrayMap(
    (name, step) -> if(
        (event = name OR (name = '' AND event != '$feature_flag_called')) AND arrayAll(
            (filter_step, text, operator, wanted, pattern) -> filter_step != step OR multiIf(
                operator = 'exact', text IS NOT NULL AND has(wanted, lowerUTF8(assumeNotNull(text))),
                operator = 'is_not', text IS NULL OR NOT has(wanted, lowerUTF8(assumeNotNull(text))),
                operator IN ('icontains', 'icontains_multi'),
                    text IS NOT NULL AND arrayExists(part -> position(lower(assumeNotNull(text)), part) > 0, wanted),
                operator IN ('not_icontains', 'not_icontains_multi'),
                    text IS NULL OR NOT arrayExists(part -> position(lower(assumeNotNull(text)), part) > 0, wanted),
                operator = 'starts_with', text IS NOT NULL AND startsWith(lower(assumeNotNull(text)), wanted[1]),
                operator = 'not_starts_with', text IS NULL OR NOT startsWith(lower(assumeNotNull(text)), wanted[1]),
                operator = 'ends_with', text IS NOT NULL AND endsWith(lower(assumeNotNull(text)), wanted[1]),
                operator = 'not_ends_with', text IS NULL OR NOT endsWith(lower(assumeNotNull(text)), wanted[1]),
                operator = 'regex', text IS NOT NULL AND lengthUTF8(assumeNotNull(text)) <= 16384 AND match(assumeNotNull(text), pattern),
                operator = 'not_regex', text IS NULL OR (lengthUTF8(assumeNotNull(text)) <= 16384 AND NOT match(assumeNotNull(text), pattern)),
                operator = 'gt', ifNull({{text_as_number}} > toFloat64OrNull(wanted[1]), false),
                operator = 'gte', ifNull({{text_as_number}} >= toFloat64OrNull(wanted[1]), false),
                operator = 'lt', ifNull({{text_as_number}} < toFloat64OrNull(wanted[1]), false),
                operator = 'lte', ifNull({{text_as_number}} <= toFloat64OrNull(wanted[1]), false),
                operator = 'between', ifNull({{text_as_number}} BETWEEN toFloat64OrNull(wanted[1]) AND toFloat64OrNull(wanted[2]), false),
                operator = 'not_between', text IS NULL OR
                    ifNull({{text_as_number}} NOT BETWEEN toFloat64OrNull(wanted[1]) AND toFloat64OrNull(wanted[2]), false),
                operator = 'is_set', text IS NOT NULL,
                operator = 'is_not_set', text IS NULL,
                false),
            {filter_steps:Array(UInt32)},
            arrayMap(key -> {{property_as_text}}, {filter_keys:Array(String)}),
            {filter_operators:Array(String)},
            {filter_values:Array(Array(String))},
            {filter_patterns:Array(String)}),
        bitShiftLeft(toUInt32(1), step - 1),
        0),
    {step_events:Array(String)},
    arrayEnumerate({step_events:Array(String)})))
