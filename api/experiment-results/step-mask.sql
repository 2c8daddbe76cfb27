-- Which steps an event is: bit 0 for the first one, and so on. A step is an event name (empty: any) and conditions on
-- properties, which come as columns of one table: the step they belong to, key, operator, wanted values, pattern.
arraySum(arrayMap(
    (name, step) -> if(
        (name = '' OR event = name) AND arrayAll(
            (filter_step, text, operator, wanted, pattern) -> filter_step != step OR multiIf(
                operator = 'exact', text IS NOT NULL AND has(wanted, assumeNotNull(text)),
                operator = 'is_not', text IS NULL OR NOT has(wanted, assumeNotNull(text)),
                operator = 'icontains', text IS NOT NULL AND arrayExists(part -> positionCaseInsensitiveUTF8(assumeNotNull(text), part) > 0, wanted),
                operator = 'not_icontains', text IS NULL OR NOT arrayExists(part -> positionCaseInsensitiveUTF8(assumeNotNull(text), part) > 0, wanted),
                operator = 'regex', text IS NOT NULL AND match(assumeNotNull(text), pattern),
                operator = 'not_regex', text IS NULL OR NOT match(assumeNotNull(text), pattern),
                operator = 'gt', ifNull(toFloat64OrNull(text) > toFloat64OrNull(wanted[1]), false),
                operator = 'gte', ifNull(toFloat64OrNull(text) >= toFloat64OrNull(wanted[1]), false),
                operator = 'lt', ifNull(toFloat64OrNull(text) < toFloat64OrNull(wanted[1]), false),
                operator = 'lte', ifNull(toFloat64OrNull(text) <= toFloat64OrNull(wanted[1]), false),
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
