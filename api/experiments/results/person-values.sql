-- The values of each exposed person day by day; `days` begin at the first exposure of who has a history. Events before
-- the exposure are day -1: `before` and `before_below` are the covariates. Day -2 has what does not count.
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
            if({property:String} = '', 1., {{property_as_number}}) AS number,
            if({below_property:String} = '', 1., {{below_as_number}}) AS below,
            trunc(ifNull(number, 0)) AS whole,
            trunc(ifNull(below, 0)) AS below_whole
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
            dateDiff('day', {first_day:Date32}, toDate32(exposed_at, {timezone:String})) AS exposed_on,
            sumIf(events + below_events, day = -1) > 0 AS has_history,
            if({is_mean:Bool}, sumIf(toFloat64(wholes) + rests, day = -1) / greatest(sumIf(events, day = -1), 1), toFloat64(sumIf(wholes, day = -1)) + sumIf(rests, day = -1)) AS before,
            toFloat64(sumIf(below_wholes, day = -1)) + sumIf(below_rests, day = -1) AS before_below,
            arraySort(groupArrayIf((day, events, wholes, rests, below_wholes, below_rests), day >= 0 AND events + below_events > 0)) AS own_days,
            if(has_history AND NOT {is_mean:Bool}, arrayPushFront(own_days, (exposed_on, 0, 0, 0, 0, 0)), own_days) AS days,
            arrayMap(each -> each.1, days) AS starts,
            if(empty(starts), [], arrayPushBack(arrayPopFront(starts), {days:UInt32})) AS ends,
            arrayMap(
                (happened, wholes_so_far, rests_so_far) -> (toFloat64(wholes_so_far) + rests_so_far) / if({is_mean:Bool}, greatest(happened, 1), 1),
                arrayCumSum(arrayMap(each -> each.2, days)),
                arrayCumSum(arrayMap(each -> each.3, days)),
                arrayCumSum(arrayMap(each -> each.4, days))) AS ys,
            arrayMap(
                (wholes_so_far, rests_so_far) -> toFloat64(wholes_so_far) + rests_so_far,
                arrayCumSum(arrayMap(each -> each.5, days)),
                arrayCumSum(arrayMap(each -> each.6, days))) AS ds,
            -- Who sent nothing has zero, but no mean, and who saw several variants has no value.
            variant != '$multiple' AND (notEmpty(days) OR NOT {is_mean:Bool}) AS is_measured
        FROM person_days
        GROUP BY entity, variant, saw_several, exposed_at
    )
