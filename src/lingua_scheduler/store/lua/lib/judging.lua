-- What the end of an attempt means for its node: quarantined, recovered, or nothing (empty).
-- A node without an entry in `trouble` has only successes to its name. What it was given before its quarantine began
-- proves nothing; what it was given since is a probe, whose success ends the quarantine and whose failure renews it.
local function judge(node, mark, given_ms, moment, rules, trouble, sick, limits)
  local entry = redis.call('HGET', trouble, node)
  if not entry and (mark == 'o' or redis.call('HEXISTS', limits, node) == 0) then return '' end
  local failures, window, consecutive, first_ms, longest_ms = string.match(rules, '(%d+) (%d+) (%d+) (%d+) (%d+)')
  local outcomes, times, since = string.match(entry or ' 0 0', '^([ox]*) (%d+) (%d+)$')
  -- What cannot be read is forgotten.
  if not outcomes then outcomes, times, since = '', 0, 0 end
  outcomes = string.sub(outcomes .. mark, -window)
  local is_sick = redis.call('ZSCORE', sick, node)
  local is_probe = is_sick and (tonumber(given_ms or 0) or 0) > tonumber(since)
  if mark == 'o' and (is_probe or not is_sick and not string.find(outcomes, 'x')) then
    redis.call('HDEL', trouble, node)
    return redis.call('ZREM', sick, node) == 1 and 'recovered' or ''
  end
  local _, failed = string.gsub(outcomes, 'x', '')
  local in_a_row = string.sub(outcomes, -consecutive) == string.rep('x', consecutive)
  local is_over = is_probe or not is_sick and (failed >= tonumber(failures) or in_a_row)
  local is_begun = mark == 'x' and is_over
  if is_begun then
    redis.call('ZADD', sick, moment + math.min(first_ms * 2 ^ times, longest_ms), node)
    times, since = times + 1, moment
  end
  redis.call('HSET', trouble, node, string.format('%s %d %.0f', outcomes, times, since))
  return is_begun and 'quarantined' or ''
end
