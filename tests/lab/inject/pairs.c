// SPDX-License-Identifier: GPL-2.0-or-later
// Three ranks that send between all pairs, and reduce, while a link is switched on and off: the
// shortest time of each by state, what came out, and the calls that each rank made.
// Usage: pairs ON OFF, two commands of the shell
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { turns = 6, rounds = 9, words = 500, samples = turns / 2 * rounds };

static int rank;
static long calls = 0;
static double times[4][2][samples];  // pairs 01, 02, 12 and the reduction; off and on
static double sent[words], got[words], sum[words];

static void send_to(int peer) {
    ++calls;
    MPI_Send(sent, words, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD);
}
static void receive_from(int peer) {
    ++calls;
    MPI_Recv(got, words, MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static void meet(void) {
    ++calls;
    MPI_Barrier(MPI_COMM_WORLD);
}

// There and back; 1 where what came back is not what was sent.
static int ping(int a, int b, int round, double* seconds) {
    const double begin = MPI_Wtime();
    if (rank == a) {
        for (int i = 0; i < words; i++) sent[i] = round * 1000 + i;
        send_to(b);
        receive_from(b);
        *seconds = MPI_Wtime() - begin;
        for (int i = 0; i < words; i++)
            if (got[i] != 2 * sent[i]) return 1;
    } else if (rank == b) {
        receive_from(a);
        for (int i = 0; i < words; i++) sent[i] = 2 * got[i];
        send_to(a);
    }
    return 0;
}

static int reduce(int round, double* seconds) {
    for (int i = 0; i < words; i++) sent[i] = round + rank * i;
    const double begin = MPI_Wtime();
    ++calls;
    MPI_Allreduce(sent, sum, words, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    *seconds = MPI_Wtime() - begin;
    for (int i = 0; i < words; i++)
        if (sum[i] != 3 * round + 3 * i) return 1;
    return 0;
}

static int turn(int number) {
    const int on = number % 2, first = number / 2 * rounds;
    int wrong = 0;
    for (int i = first; i < first + rounds; i++) {
        meet();
        wrong += ping(0, 1, i, &times[0][on][i]);
        meet();
        wrong += ping(0, 2, i, &times[1][on][i]);
        meet();
        wrong += ping(1, 2, i, &times[2][on][i]);
        meet();
        wrong += reduce(i, &times[3][on][i]);
    }
    return wrong;
}

// A delay is a floor; what else the machine does only adds.
static double shortest_ms(const double* of) {
    double least = of[0];
    for (int i = 1; i < samples; i++)
        if (of[i] < least) least = of[i];
    return 1e3 * least;
}

// On rank 0 the longest of all ranks: who enters last waits least. Past the recorder.
static void take_longest(double* of) {
    PMPI_Reduce(rank == 0 ? MPI_IN_PLACE : of, of, samples, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
}

int main(int count, char** values) {
    if (count != 3) return 2;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int wrong = 0;
    for (int i = 0; i < turns; i++) {
        if (rank == 0 && i > 0 && system(values[i % 2 ? 1 : 2]) != 0) wrong++;
        if (rank == 0) usleep(60000);
        meet();
        wrong += turn(i);
    }
    for (int on = 0; on < 2; on++) take_longest(times[3][on]);
    const char* names[] = {"01", "02", "12", "reduce"};
    for (int i = 0; i < 4; i++)
        if ((i < 2 && rank == 0) || (i == 2 && rank == 1) || (i == 3 && rank == 0))
            printf("%s %.3f %.3f\n", names[i], shortest_ms(times[i][0]), shortest_ms(times[i][1]));
    printf("rank %d calls %ld wrong %d\n", rank, calls, wrong);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
