-- Who started (a denominator), on the day that they did, and who of them came back in the window after it.
        SELECT
            entity,
            variant,
            saw_several,
            exposed_at,
            toInt32(multiIf(not_started, -2, is_before, -1, dateDiff('day', {first_day:Date32}, toDate32(happened.1, {timezone:String})))) AS day,
            toFloat64(happened.2) AS own,
            1 - own AS own_below
        FROM
        (
            SELECT
                entity,
                variant,
                saw_several,
                exposed_at,
                timestamp < exposed_at AS is_before,
                countIf(starts) = 0 AS not_started,
                if({last_seen:Bool}, maxIf(timestamp, starts), minIf(timestamp, starts)) AS started,
                arraySort(groupArrayIf(timestamp, bitTest(steps, 0))) AS returns,
                arrayFilter(at -> at >= started, returns) AS later,
                -- The event that starts is no return, even where it is one by its name.
                if(has(groupArrayIf(timestamp, starts AND bitTest(steps, 0)), started), arrayPopFront(later), later) AS others,
                arrayFilter(at -> {{returns_in_time}}, others) AS returned
            FROM
            (
                SELECT *, bitTest(steps, 1) AND {{counts}} AS starts
                FROM happenings
                RIGHT JOIN exposures USING (entity)
            )
            GROUP BY entity, variant, saw_several, exposed_at, is_before
        )
        ARRAY JOIN if(not_started OR empty(returned), [(started, 0)], [(started, 0), (returned[1], 1)]) AS happened
