-- The values of each exposed person after each event that counts, in the order of days, which begin at the exposure of
-- who has a history. Events before the exposure are day -1: `before` and `before_below` are the covariates. Day -2 has
-- what does not count. Whole numbers add up exactly, in any order; the rest of each is below 1.
    exposures AS
    (
{{exposures}}
    ),
    happenings AS
    (
        SELECT
            {{entity}} AS entity,
            timestamp,
            {{steps}} AS steps,
            {{number}} AS number,
            {{below}} AS below
        FROM events_with_person
        WHERE {{happened}}
            AND steps != 0
    ),
    person_days AS
    (
{{person_days}}
    ),
    people AS
    (
        SELECT
            variant,
            saw_several,
            toInt32(dateDiff('day', {first_day:Date32}, toDate32(exposed_at, {timezone:String}))) AS exposed_on,
            countIf(day = -1) AS earlier,
            earlier > 0 AS has_history,
            toFloat64(sumIf({{whole}}(own), day = -1)) + sumIf(own - trunc(own), day = -1) AS before_sum,
            if({is_mean:Bool}, before_sum / greatest(earlier, 1), before_sum) AS before,
            toFloat64(sumIf({{whole}}(own_below), day = -1)) + sumIf(own_below - trunc(own_below), day = -1) AS before_below,
            sum(abs(own) + abs(own_below)) AS size,
            arraySort(groupArrayIf((day, own, own_below), day >= 0)) AS own_days,
            if(has_history AND NOT {is_mean:Bool}, arrayPushFront(own_days, (exposed_on, 0, 0)), own_days) AS days,
            arrayMap(each -> each.1, days) AS starts,
            if(empty(starts), [], arrayPushBack(arrayPopFront(starts), toInt32({days:UInt32}))) AS ends,
            arrayMap(
                (wholes, rests, events) -> (toFloat64(wholes) + rests) / if({is_mean:Bool}, events, 1),
                arrayCumSum(arrayMap(each -> {{whole}}(each.2), days)),
                arrayCumSum(arrayMap(each -> each.2 - trunc(each.2), days)),
                arrayEnumerate(days)) AS ys,
            arrayMap(
                (wholes, rests) -> toFloat64(wholes) + rests,
                arrayCumSum(arrayMap(each -> {{whole}}(each.3), days)),
                arrayCumSum(arrayMap(each -> each.3 - trunc(each.3), days))) AS ds,
            -- Who sent nothing has zero, but no mean, and who saw several variants has no value.
            variant != 0 AND (notEmpty(days) OR NOT {is_mean:Bool}) AS is_measured
        FROM person_days
        GROUP BY entity, variant, saw_several, exposed_at
    )
